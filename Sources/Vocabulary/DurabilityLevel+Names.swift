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
