internal import Vocabulary

/// Snapshots, for whom the log is too short (thesis 5).
extension Raft {
    mutating func sendSnapshot(to peer: NodeNumber) {
        guard var progress = leading.progress[peer], progress.isActive else { return }
        // The driver may send a newer one that it has meanwhile; the answer will tell.
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
        // Not again before its next sign of life, be it the snapshot's acknowledgement.
        progress.isProbing = true
        leading.progress[peer] = progress
    }
}
