internal import Bytes
internal import Vocabulary

/// Which nodes of a run begin as nodes of the release before.
///
/// One seed in four is of two releases. Each such node is upgraded when it starts again, whatever ended
/// it: a rolling upgrade without an event of its own. The dice are a stream of their own, so that the
/// faults of a seed are the same with and without a mix.
enum ReleaseMix {
    static func apply(seed: UInt64, to nodes: [SimulatedNode]) {
        var dice = SeededRandom(seed: seed ^ 0x006c_6576_656c_7300)
        guard dice.next() % 4 == 0 else { return }
        // A cluster of the current release takes no older node.
        nodes.first?.level = .base
        for node in nodes.dropFirst() where dice.next() % 3 == 0 { node.level = .base }
    }
}
