internal import Bytes
internal import Vocabulary

/// Chooses the nodes of a run that start as the artificial earlier release, with the lowest feature level.
///
/// One seed in four has nodes of two releases. Each old node is upgraded at its next restart,
/// whatever the cause: a rolling upgrade without extra events. The random numbers are a separate
/// sequence, so that the faults of a seed are the same with and without a mix.
enum ReleaseMix {
    static func apply(seed: UInt64, to nodes: [SimulatedNode]) {
        var dice = SeededRandom(seed: seed ^ 0x006c_6576_656c_7300)
        guard dice.next() % 4 == 0 else { return }
        // A cluster of the current feature level does not accept an older node.
        nodes.first?.level = .lowest
        for node in nodes.dropFirst() where dice.next() % 3 == 0 { node.level = .lowest }
    }
}
