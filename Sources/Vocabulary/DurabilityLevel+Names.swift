extension DurabilityLevel {
    /// From the weakest to the strongest; each has what those before it have.
    package static let all: [DurabilityLevel] = [
        .majority, .majorityAndPersistOnActive, .persistToMajority,
    ]

    /// What REST says where there is no level.
    package static let noneName = "none"

    /// As REST has it.
    package var name: String {
        switch self {
        case .majority: "majority"
        case .majorityAndPersistOnActive: "majorityAndPersistActive"
        case .persistToMajority: "persistToMajority"
        }
    }

    package var needsDisk: Bool { self != .majority }
}
