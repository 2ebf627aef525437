internal import Bytes
internal import Orchestration
internal import Seams
package import Vocabulary

/// The indexes of all nodes: each node sends what it has of its own with its statistics.
///
/// - Nothing is sent by a node without views, or while a member could not read it.
extension AdministrationService {
    /// Sets how to read this node's indexes; it returns nil without views, and never waits.
    package func readViews(_ read: @escaping @Sendable () -> ViewStatistics?) {
        board.core.withLock { $0.readViews = read }
    }

    /// The indexes of a node, at most a few seconds old; nil if it has none, or does not answer.
    package func viewStatistics(of node: NodeNumber) -> ViewStatistics? {
        if node == thisNode { return ownViewStatistics() }
        guard let entry = board.core.withLock({ $0.views[node] }), isCurrent(entry.heardAt, node)
        else { return nil }
        return entry.statistics
    }

    func ownViewStatistics() -> ViewStatistics? {
        let read = board.core.withLock { $0.readViews }
        guard let own = read?(), !own.buckets.isEmpty else { return nil }
        return own
    }

    /// Sends this node's indexes; empty once after the last one was removed.
    func sendViewStatistics(to others: [NodeNumber]) {
        let own = ownViewStatistics()
        let wasSent = board.core.withLock { core in
            defer { core.hasSentViews = own != nil && !others.isEmpty }
            return core.hasSentViews
        }
        guard !others.isEmpty, own != nil || wasSent else { return }
        let bytes = (own ?? ViewStatistics()).bytes
        for other in others {
            calls.send(PeerKind.viewStatistics, bytes, to: other, isBulk: true)
        }
    }

    func handleViewStatistics() {
        calls.handleMessages(PeerKind.viewStatistics) { [weak self] from, bytes in
            guard let self, let statistics = ViewStatistics(bytes: bytes) else { return }
            let now = environment.time.monotonicNanoseconds()
            board.core.withLock { core in
                core.views[from] =
                    statistics.buckets.isEmpty
                    ? nil : StatisticsBoard.ViewEntry(statistics: statistics, heardAt: now)
            }
        }
    }
}
