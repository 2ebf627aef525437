internal import Bytes
internal import DataService
internal import Engine
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// Shortage of memory: cursors are dropped, documents ejected, writes refused.
extension Chaos {
    func beginInMemory(_ kind: Kind, _ node: SimulatedNode) {
        let length = 100_000_000 + random.next() % 6_000_000_000
        if kind == .dropCursor {
            let pause = 1_000_000 + random.next() % 100_000_000
            dropCursors(node, every: pause, until: cluster.world.now + length)
        } else {
            squeeze(node, for: length)
        }
    }

    /// Drops cursors repeatedly, as a node does whose checkpoints exceed their share of memory.
    private func dropCursors(_ node: SimulatedNode, every pause: UInt64, until end: UInt64) {
        guard !isOver, cluster.world.now < end else { return }
        for bucket in node.node?.data.buckets ?? [] {
            effects["droppedCursor", default: 0] += bucket.dropCursors()
        }
        cluster.world.after(pause) { [weak self] in
            self?.dropCursors(node, every: pause, until: end)
        }
    }

    /// Lowers the quotas of a node's buckets to 50 to 130 percent of their usage for a duration.
    private func squeeze(_ node: SimulatedNode, for nanoseconds: UInt64) {
        cluster.world.transcript.note("memory of \(node.address) is short")
        guard squeeze(node, { $0 * (50 + self.random.next() % 80) / 100 }) else { return }
        cluster.world.after(nanoseconds) { [weak self] in
            guard let self, !isOver else { return }
            release()
        }
    }

    /// Lowers the quotas of a node's buckets so that writes are refused after `room` more bytes.
    func squeeze(_ node: SimulatedNode, leaving room: UInt64) {
        _ = squeeze(node) { ($0 + room) * 100 / 93 }
    }

    private func squeeze(_ node: SimulatedNode, _ quota: (UInt64) -> UInt64) -> Bool {
        guard let data = node.node?.data else { return false }
        for bucket in data.buckets {
            let account = bucket.engine.account
            if !squeezed.contains(where: { $0.account === account }) {
                squeezed.append((account, account.quota))
            }
            account.quota = max(1, quota(account.bytes))
        }
        return true
    }

    /// Restores all quotas.
    func release() {
        for bucket in cluster.nodes.compactMap({ $0.node?.data }).flatMap(\.buckets)
        where squeezed.contains(where: { $0.account === bucket.engine.account }) {
            let ejected = bucket.engine.all.reduce(0) { sum, vBucket in
                sum
                    + vBucket.withCore {
                        $0.ejectedCount + $0.ejectedTombstoneCount + $0.table.stubCount
                    }
            }
            effects["ejectedDocument", default: 0] += ejected
        }
        for (account, granted) in squeezed { account.quota = granted }
        squeezed = []
    }
}
