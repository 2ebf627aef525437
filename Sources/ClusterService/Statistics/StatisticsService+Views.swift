internal import Bytes
internal import Seams
package import Vocabulary

/// When a node sends what it has of its indexes: on a change, and repeated after a while in case a
/// message was lost.
///
/// A bucket may have hundreds of design documents, and most of the time none of their figures
/// changes.
package struct ViewSending {
    /// The pause after which unchanged statistics are repeated.
    package static let refreshNanoseconds: UInt64 = 10_000_000_000
    /// Statistics of another node are shown for so long: two repetitions may be lost.
    package static let shownNanoseconds: UInt64 = 3 * refreshNanoseconds

    /// The statistics of this node that were sent last; nil: none.
    private var sent: ViewStatistics?
    private var nodes: [NodeNumber] = []
    private var sentAt: UInt64 = 0

    package init() {}

    /// Decides what is sent now, and records that it was.
    ///
    /// - Parameters:
    ///   - own: What this node has of its indexes; nil without views.
    ///   - others: The other nodes.
    ///   - now: Monotonic nanoseconds.
    /// - Returns: What to send to all others, nil for nothing. It is empty once after the last index
    ///   was removed.
    package mutating func next(
        _ own: ViewStatistics?,
        to others: [NodeNumber],
        now: UInt64
    ) -> ViewStatistics? {
        guard !others.isEmpty, own != nil || sent != nil else {
            (sent, nodes) = (nil, [])
            return nil
        }
        let isDue =
            own != sent || others != nodes || now >= sentAt + ViewSending.refreshNanoseconds
        guard isDue else { return nil }
        (sent, nodes, sentAt) = (own, others, now)
        return own ?? ViewStatistics()
    }
}

/// The indexes of all nodes: each node sends what it has of its own.
///
/// - Nothing is sent by a node without views, or while a member could not read it.
extension StatisticsService {
    /// Sets how to read this node's indexes; it returns nil without views, and never waits.
    package func readViews(_ read: @escaping @Sendable () -> ViewStatistics?) {
        receivedStatistics.core.withLock { $0.readViews = read }
    }

    /// The indexes of a node, at most a few seconds old; nil if it has none, or does not answer.
    package func viewStatistics(of node: NodeNumber) -> ViewStatistics? {
        if node == cluster.thisNode { return ownViewStatistics() }
        guard let entry = receivedStatistics.core.withLock({ $0.views[node] }),
            !cluster.isSilent(node)
        else {
            return nil
        }
        let now = cluster.monotonicNanoseconds
        let isCurrent = now < entry.heardAt + ViewSending.shownNanoseconds
        return isCurrent ? entry.statistics : nil
    }

    func ownViewStatistics() -> ViewStatistics? {
        let read = receivedStatistics.core.withLock { $0.readViews }
        guard let own = read?(), !own.buckets.isEmpty else { return nil }
        return own
    }

    /// Sends this node's indexes to all others, if that is due.
    func sendViewStatistics(to others: [NodeNumber]) {
        guard cluster.calls.mayUse(PeerKind.viewStatistics) else { return }
        let (own, now) = (ownViewStatistics(), cluster.monotonicNanoseconds)
        let due = receivedStatistics.core.withLock {
            $0.viewSending.next(own, to: others, now: now)
        }
        guard let bytes = due?.encoded else { return }
        for other in others {
            cluster.calls.send(PeerKind.viewStatistics, bytes, to: other, isBulk: true)
        }
    }

    func handleViewStatistics() {
        cluster.calls.handleMessages(PeerKind.viewStatistics) { [weak self] from, bytes in
            guard let self, let statistics = ViewStatistics(message: bytes) else { return }
            let now = cluster.monotonicNanoseconds
            receivedStatistics.core.withLock { core in
                core.views[from] =
                    statistics.buckets.isEmpty
                    ? nil : ReceivedStatistics.ViewEntry(statistics: statistics, heardAt: now)
            }
        }
    }
}
