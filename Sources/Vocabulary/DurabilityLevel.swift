/// Which copies must have a write before it is acknowledged; the raw values are the protocol's.
package enum DurabilityLevel: UInt8, Hashable, Sendable {
    case majority = 1
    case majorityAndPersistOnActive = 2
    case persistToMajority = 3
}

extension DurabilityLevel {
    /// From the weakest to the strongest; each includes the guarantees of those before it.
    package static let all: [DurabilityLevel] = [
        .majority, .majorityAndPersistOnActive, .persistToMajority,
    ]

    /// The REST API's name for no level.
    package static let noneName = "none"

    /// The REST API's name.
    package var name: String {
        switch self {
        case .majority: "majority"
        case .majorityAndPersistOnActive: "majorityAndPersistActive"
        case .persistToMajority: "persistToMajority"
        }
    }

    package var needsDisk: Bool { self != .majority }
}
