/// The parameters of a run; everything else follows from the seed.
package struct SimulationPlan: Sendable {
    package static let workloads = Workload.names
    package static let faults = Chaos.Kind.allCases.map(\.rawValue)

    package var seed: UInt64
    /// The number of nodes; nil for the workload's, drawn by the seed.
    package var nodes: Int?
    package var workload = "standard"
    package var faults = "swarm"

    package init(seed: UInt64) {
        self.seed = seed
    }
}

/// The outcome of a run.
package struct SimulationOutcome: Sendable {
    package var violations: [String] = []
    package var digest: UInt64 = 0
    package var nodes = 0
    package var steps: UInt64 = 0
    /// Simulated nanoseconds.
    package var nanoseconds: UInt64 = 0
    package var tally = Tally()
    package var transcript: [String] = []
}
