internal import Bytes
internal import Seams
internal import SimulatedPlatform

/// Ends script processes, also in the middle of a reply, or slows them or the lanes of indexes for a
/// while.
///
/// In half of the seeds with views. The random numbers are a separate sequence. Ends are some seconds
/// apart: a call that ends two fresh processes would be skipped, and its document would have no rows.
final class ScriptFaults {
    private static let second: UInt64 = 1_000_000_000

    private let cluster: SimulatedCluster
    private var dice: SeededRandom
    private var isOver = false
    private(set) var tally = Tally()

    /// - Returns: Nil if the seed has none.
    init?(_ cluster: SimulatedCluster, seed: UInt64) {
        dice = SeededRandom(seed: seed ^ 0x7363_7269_7074)
        guard dice.next() & 1 == 0 else { return nil }
        self.cluster = cluster
    }

    func start() {
        let pause = 3 * ScriptFaults.second + dice.next() % (6 * ScriptFaults.second)
        cluster.world.after(pause) { [weak self] in
            guard let self, !isOver else { return }
            act()
            start()
        }
    }

    func end() {
        isOver = true
        for node in cluster.nodes {
            cluster.world.apply(.slowChildren(node.address, nanoseconds: 0))
            cluster.world.apply(.slowLane(node.address, lanes: "index-", nanoseconds: 0))
        }
    }

    private func act() {
        let address = cluster.nodes[Int(dice.next() % UInt64(cluster.nodes.count))].address
        let length = 2 * ScriptFaults.second
        switch dice.next() % 6 {
        case 0, 1:
            tally[.change, "endedScript"] += 1
            let isMidOutput = dice.next() & 1 == 0
            cluster.world.apply(.endChild(address, .signalled(9), isMidOutput: isMidOutput))
        case 2:
            tally[.change, "slowScripts"] += 1
            let slowness = 1_000_000 + dice.next() % 200_000_000
            cluster.world.apply(.slowChildren(address, nanoseconds: slowness))
            cluster.world.after(length) { [weak self] in
                self?.cluster.world.apply(.slowChildren(address, nanoseconds: 0))
            }
        default:
            // Long enough that queries meet vBuckets whose rows are being removed or built.
            tally[.change, "slowIndexes"] += 1
            let slowness = 1_000_000 + dice.next() % 60_000_000
            cluster.world.apply(.slowLane(address, lanes: "index-", nanoseconds: slowness))
            cluster.world.after(length) { [weak self] in
                self?.cluster.world.apply(.slowLane(address, lanes: "index-", nanoseconds: 0))
            }
        }
    }
}
