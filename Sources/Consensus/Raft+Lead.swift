internal import Vocabulary

/// The leader's side of the log: proposals, appends, responses, commits (thesis 3.5, 3.6, 10.2).
extension Raft {
    mutating func propose(_ commands: [[UInt8]]) {
        if let refusal = proposalRefusal() { return refuseProposal(refusal) }
        guard !commands.isEmpty else { return refuseProposal(.nothingProposed) }
        guard leading.uncommittedBytes < settings.uncommittedBytesMax else {
            return refuseProposal(.tooMuchUncommitted)
        }
        let first = LogPosition(term: term, index: log.lastIndex + 1)
        append(commands.map { .command($0) })
        outbox.ready.proposal = .accepted(first: first, count: commands.count)
        broadcastAppend()
    }

    /// Why this member accepts no proposals at all; nil if it does.
    func proposalRefusal() -> ProposalRefusal? {
        guard isLeader else { return .notLeader(leader) }
        return leading.transferTarget.map { .transferring(to: $0) }
    }

    mutating func refuseProposal(_ refusal: ProposalRefusal) {
        outbox.ready.proposal = .refused(refusal)
    }

    mutating func append(_ payloads: [LogEntry.Payload]) {
        for payload in payloads {
            let entry = LogEntry(term: term, index: log.lastIndex + 1, payload: payload)
            leading.uncommittedBytes += entry.bytes
            log.append(entry)
            if case .configuration = payload {
                // A new voter counts as active until the next quorum check, so that adding it does
                // not make the leader step down.
                updateMembers(next: max(log.lastIndex, 1), isActive: true)
            }
        }
    }

    // MARK: Sending

    mutating func broadcastAppend() {
        for peer in leading.members where peer != node { sendAppends(to: peer) }
    }

    mutating func sendAppends(to peer: NodeNumber) {
        // The limit of appends in flight bounds the loop.
        while sendAppend(to: peer, evenEmpty: false) {}
    }

    /// Sends one append, or a snapshot if the log begins too late.
    ///
    /// Returns true if entries were sent and more are left to send.
    @discardableResult
    mutating func sendAppend(to peer: NodeNumber, evenEmpty: Bool) -> Bool {
        guard var progress = leading.progress[peer],
            !progress.isPaused(inFlightMax: settings.appendsInFlightMax)
        else { return false }
        let before = progress.next - 1
        guard let term = log.term(at: before), progress.next >= log.firstIndex else {
            sendSnapshot(to: peer)
            return false
        }
        let entries = log.entries(from: progress.next, bytesMax: settings.appendBytesMax)
        if entries.isEmpty, !evenEmpty, progress.state == .replicate || hasWholeLog(progress) {
            return false
        }
        let append = Message.Append(
            previous: LogPosition(term: term, index: before),
            entries: entries,
            commit: log.commit
        )
        send(.append(append), to: peer)
        progress.sent(through: entries.last?.index)
        leading.progress[peer] = progress
        return !entries.isEmpty && progress.next <= log.lastIndex
    }

    /// Whether the member is known to have the whole log.
    ///
    /// Until then a probe is sent even if it carries no entries.
    private func hasWholeLog(_ progress: Progress) -> Bool { progress.received >= log.lastIndex }

    mutating func sendHeartbeats() {
        leading.round += 1
        for peer in leading.members where peer != node {
            let matched = leading.progress[peer]?.matched ?? 0
            let beat = Message.Heartbeat(
                commit: min(matched, log.commit),
                round: leading.round
            )
            send(.heartbeat(beat), to: peer)
        }
    }

    // MARK: Responses

    mutating func handleAppendResponse(_ response: Message.AppendResponse, from peer: NodeNumber) {
        guard isLeader, var progress = leading.progress[peer] else { return }
        progress.isActive = true
        switch response {
        case .rejected(let previous, let hint):
            // If the leader's log has a later term at the hinted index, the logs can agree only at
            // an earlier index.
            let place = log.candidate(atOrBelow: hint.index, term: hint.term).index
            let isNews = progress.rejected(previous, hint: place)
            leading.progress[peer] = progress
            if isNews { sendAppend(to: peer, evenEmpty: true) }
        case .accepted(let received, let acknowledged):
            guard received <= log.lastIndex else { return }
            let wasPaused = progress.isPaused(inFlightMax: settings.appendsInFlightMax)
            let isNews = progress.accepted(received: received, acknowledged: acknowledged)
            switch progress.state {
            case .probe where isNews || received == progress.received: progress.becomeReplicate()
            case .snapshot where progress.received + 1 >= log.firstIndex:
                progress.becomeReplicate()
            default: break
            }
            leading.progress[peer] = progress
            let before = log.commit
            if isNews { advanceCommit() }
            guard isLeader else { return }
            // A paused member has not received the latest commit index. If the index advanced just
            // now, `advanceCommit` has sent it.
            if log.commit == before, wasPaused { sendAppend(to: peer, evenEmpty: true) }
            sendAppends(to: peer)
            completeTransferIfReady(to: peer)
        }
    }

    mutating func handleHeartbeatResponse(round: UInt64, from peer: NodeNumber) {
        guard isLeader, var progress = leading.progress[peer] else { return }
        progress.isActive = true
        progress.isProbing = false
        progress.round = max(progress.round, round)
        // The acknowledgements of a full window may have been lost: allow one more append, which
        // prompts another acknowledgement.
        if progress.state == .replicate, progress.inFlight.count >= settings.appendsInFlightMax {
            progress.inFlight.removeFirst()
        }
        leading.progress[peer] = progress
        // Compare `matched`, not `received`: a member acknowledges an index that it withheld only
        // once, and that message may have been lost.
        if progress.matched < log.lastIndex || progress.state == .probe {
            sendAppend(to: peer, evenEmpty: true)
        }
        answerReads()
    }

    // MARK: Committing

    /// Updates the leader's own progress.
    ///
    /// As on every member, only entries on disk count.
    mutating func updateOwnProgress() {
        let (received, matched) = (log.durable, acknowledgeable)
        leading.progress[node]?.next = received + 1
        leading.progress[node]?.received = received
        leading.progress[node]?.matched = matched
    }

    /// Advances the commit index to what a quorum has acknowledged.
    ///
    /// Only an entry of this term is committed by counting; all entries before it are committed
    /// with it (thesis 3.6.2, figure 3.7).
    mutating func advanceCommit() {
        updateOwnProgress()
        let reached = configuration.committed { leading.progress[$0]?.matched ?? 0 }
        let index = min(reached, log.lastIndex)
        guard index > log.commit, log.term(at: index) == term else { return }
        for entry in log.entries(from: log.commit + 1) where entry.index <= index {
            leading.uncommittedBytes -= entry.bytes
        }
        log.commit(to: index)
        // Followers apply only what they know to be committed: send the new commit index, with an
        // empty append if there are no entries to send.
        for peer in leading.members where peer != node { sendAppend(to: peer, evenEmpty: true) }
        beginEarlyReads()
        finishChange()
    }
}
