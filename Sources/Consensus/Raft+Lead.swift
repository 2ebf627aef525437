internal import Vocabulary

/// The leader's side of the log: proposals, appends, answers, commits (thesis 3.5, 3.6, 10.2).
extension Raft {
    mutating func propose(_ commands: [[UInt8]]) {
        if let refusal = refusal() { return refuse(refusal) }
        guard !commands.isEmpty else { return refuse(.nothingProposed) }
        guard leading.uncommittedBytes < settings.uncommittedBytesMax else {
            return refuse(.tooMuchUncommitted)
        }
        let first = LogPosition(term: term, index: log.lastIndex + 1)
        append(commands.map { .command($0) })
        outbox.ready.proposal = .accepted(first: first, count: commands.count)
        broadcastAppend()
    }

    func refusal() -> ProposalRefusal? {
        guard isLeader else { return .notLeader(leader) }
        return leading.transferTarget.map { .transferring(to: $0) }
    }

    mutating func refuse(_ refusal: ProposalRefusal) {
        outbox.ready.proposal = .refused(refusal)
    }

    mutating func append(_ payloads: [LogEntry.Payload]) {
        for payload in payloads {
            let entry = LogEntry(term: term, index: log.lastIndex + 1, payload: payload)
            leading.uncommittedBytes += entry.bytes
            log.append(entry)
            if case .configuration = payload {
                // Heard of until proved otherwise: a new voter must not cost us the quorum.
                followMembers(next: max(log.lastIndex, 1), isActive: true)
            }
        }
    }

    // MARK: Sending

    mutating func broadcastAppend() {
        for peer in leading.members where peer != node { sendAppends(to: peer) }
    }

    mutating func sendAppends(to peer: NodeNumber) {
        // Bounded by the appends that may be in flight.
        while sendAppend(to: peer, evenEmpty: false) {}
    }

    /// Says whether something was sent and more may follow.
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
        if entries.isEmpty, !evenEmpty, progress.state == .replicate || isToldAll(progress) {
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

    /// A member that is being probed is asked until the logs are known to agree.
    private func isToldAll(_ progress: Progress) -> Bool { progress.received >= log.lastIndex }

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

    // MARK: Answers

    mutating func take(_ response: Message.AppendResponse, from peer: NodeNumber) {
        guard isLeader, var progress = leading.progress[peer] else { return }
        progress.isActive = true
        switch response {
        case .rejected(let previous, let hint):
            // Where our log has a later term at the hint, the logs agree further back at best.
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
            // What was committed while nothing could be sent to it, it has not heard of.
            if log.commit == before, wasPaused { sendAppend(to: peer, evenEmpty: true) }
            sendAppends(to: peer)
            handOverIfReady(to: peer)
        }
    }

    mutating func take(round: UInt64, from peer: NodeNumber) {
        guard isLeader, var progress = leading.progress[peer] else { return }
        progress.isActive = true
        progress.isProbing = false
        progress.round = max(progress.round, round)
        // An answer to a full window may have been lost: let one more append ask.
        if progress.state == .replicate, progress.inFlight.count >= settings.appendsInFlightMax {
            progress.inFlight.removeFirst()
        }
        leading.progress[peer] = progress
        // Not what it has but what it acknowledged: what it withheld it acknowledges once, and that
        // may have been lost.
        if progress.matched < log.lastIndex || progress.state == .probe {
            sendAppend(to: peer, evenEmpty: true)
        }
        answerReads()
    }

    // MARK: Committing

    /// A leader's own log counts when it is on disk, like everybody's.
    mutating func countOneself() {
        let (received, matched) = (log.durable, acknowledgeable)
        leading.progress[node]?.next = received + 1
        leading.progress[node]?.received = received
        leading.progress[node]?.matched = matched
    }

    /// Commits what a quorum has.
    ///
    /// Only an entry of this term is counted; it brings along whatever stands before it (thesis
    /// 3.6.2, figure 3.7).
    mutating func advanceCommit() {
        countOneself()
        let reached = configuration.committed { leading.progress[$0]?.matched ?? 0 }
        let index = min(reached, log.lastIndex)
        guard index > log.commit, log.term(at: index) == term else { return }
        for entry in log.entries(from: log.commit + 1) where entry.index <= index {
            leading.uncommittedBytes -= entry.bytes
        }
        log.commit(to: index)
        // So that followers can apply: an empty append where nothing else is on its way.
        for peer in leading.members where peer != node { sendAppend(to: peer, evenEmpty: true) }
        beginEarlyReads()
        finishChange()
    }
}
