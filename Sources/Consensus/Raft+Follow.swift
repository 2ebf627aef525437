internal import Vocabulary

/// The follower's side: appends, commits, snapshots and their acknowledgements (thesis 3.5, 5).
extension Raft {
    mutating func handleAppend(_ append: Message.Append, from leader: NodeNumber) {
        if append.previous.index < log.commit {
            // The entry at `previous` is committed here: acknowledge up to the commit index, so
            // that the leader continues from there.
            following.agreed = max(following.agreed, log.commit)
            return acknowledge(log.commit)
        }
        guard log.contains(append.previous) else {
            let hint = log.candidate(
                atOrBelow: append.previous.index,
                term: append.previous.term
            )
            let response = Message.AppendResponse.rejected(
                previous: append.previous.index,
                hint: hint
            )
            return sendAfterStorage(.appendResponse(response), to: leader)
        }
        for entry in append.entries {
            if let known = log.term(at: entry.index) {
                if known == entry.term { continue }
                log.truncate(from: entry.index)
            }
            log.append(entry)
        }
        let last = append.previous.index + UInt64(append.entries.count)
        following.agreed = max(following.agreed, last)
        log.commit(to: min(append.commit, last))
        acknowledge(last)
    }

    mutating func handleHeartbeat(_ beat: Message.Heartbeat, from leader: NodeNumber) {
        // The leader never sends a commit index beyond what this member has acknowledged.
        log.commit(to: min(beat.commit, log.lastIndex))
        send(.heartbeatResponse(round: beat.round), to: leader)
    }

    mutating func handleSnapshot(_ snapshot: SnapshotDescription, from leader: NodeNumber) {
        if snapshot.index <= log.commit {
            following.agreed = max(following.agreed, log.commit)
            return acknowledge(log.commit)
        }
        if log.contains(snapshot.position) {
            following.agreed = max(following.agreed, snapshot.index)
            log.commit(to: snapshot.index)
            return acknowledge(snapshot.index)
        }
        log.restore(snapshot, number: outbox.writes + 1)
        outbox.snapshot = snapshot
        following.agreed = snapshot.index
        acknowledge(snapshot.index)
    }

    /// Acknowledges an append or a snapshot once every write issued so far is on disk.
    private mutating func acknowledge(_ received: LogIndex) {
        guard let leader else { preconditionFailure("an acknowledgement needs a leader") }
        let response = Message.AppendResponse.accepted(received: received, acknowledged: 0)
        sendAfterStorage(.appendResponse(response), to: leader)
    }

    /// Fills in `acknowledged` when the response leaves: more may be on disk by then, and the
    /// driver may have changed what it withholds.
    mutating func withNewestAcknowledgement(_ message: Message) -> Message {
        guard case .appendResponse(.accepted(let received, _)) = message.body else {
            return message
        }
        let acknowledged = min(max(acknowledgeable, log.commit), received)
        following.acknowledged = max(following.acknowledged, acknowledged)
        var message = message
        let body = Message.AppendResponse.accepted(
            received: received,
            acknowledged: acknowledged
        )
        message.body = .appendResponse(body)
        return message
    }

    /// After a write finished or the driver withholds less: the leader advances its commit index, a
    /// follower acknowledges what it could not acknowledge before.
    mutating func acknowledgeMore() {
        if isLeader { return advanceCommit() }
        guard let leader else { return }
        let received = min(following.agreed, log.durable)
        let acknowledged = min(acknowledgeable, received)
        guard acknowledged > following.acknowledged else { return }
        following.acknowledged = acknowledged
        let body = Message.AppendResponse.accepted(
            received: received,
            acknowledged: acknowledged
        )
        send(.appendResponse(body), to: leader)
    }
}
