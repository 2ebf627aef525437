internal import Vocabulary

/// Snapshots for members that need entries the log no longer has (thesis 5).
extension Raft {
    mutating func sendSnapshot(to peer: NodeNumber) {
        guard var progress = leading.progress[peer], progress.isActive else { return }
        // The driver may send a newer snapshot; the acknowledgement carries the index it covers.
        send(.snapshot(log.snapshot), to: peer)
        progress.becomeSnapshot(log.snapshot.index)
        leading.progress[peer] = progress
    }

    mutating func snapshotSent(_ peer: NodeNumber, _ isDelivered: Bool) {
        guard isLeader, var progress = leading.progress[peer],
            case .snapshot = progress.state
        else { return }
        if !isDelivered { progress.state = .probe }
        progress.becomeProbe()
        // Send nothing until the member's next message, which may be the snapshot's
        // acknowledgement.
        progress.isProbing = true
        leading.progress[peer] = progress
    }
}
