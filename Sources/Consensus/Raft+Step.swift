internal import Vocabulary

/// The single entry point, and the output of a step.
extension Raft {
    /// Handles one event and returns what the driver has to store, send and apply.
    package mutating func step(_ event: RaftEvent) -> Ready {
        let before = (term, role, leader)
        outbox.ready = Ready()
        handle(event)
        var ready = completeReady()
        ready.isStateChanged = before != (term, role, leader)
        return ready
    }

    private mutating func handle(_ event: RaftEvent) {
        switch event {
        case .tick(let dice): tick(dice)
        case .received(let message): receive(message)
        case .propose(let commands): propose(commands)
        case .change(let change): propose(change)
        case .read(let context): read(context)
        case .transfer(let target): transfer(to: target)
        case .campaign: campaign(.preVote)
        case .stored(let number): stored(number)
        case .snapshotTaken(let description):
            log.compact(description, keeping: settings.entriesKept)
        case .withhold(let index):
            withheldFrom = index
            acknowledgeMore()
        case .unreachable(let node):
            if leading.progress[node]?.state == .replicate {
                leading.progress[node]?.becomeProbe()
            }
        case .snapshotSent(let node, let isDelivered): snapshotSent(node, isDelivered)
        }
    }

    /// Completes the output of a step.
    ///
    /// A message that depends on a write is held back until that write is on disk.
    private mutating func completeReady() -> Ready {
        let hardState = HardState(term: term, vote: vote?.value ?? 0, commit: log.commit)
        let isVoteNew = (hardState.term, hardState.vote) != (outbox.saved.term, outbox.saved.vote)
        if isVoteNew || log.hasUnwritten || outbox.snapshot != nil {
            outbox.writes += 1
            let number = outbox.writes
            var write = StorageWrite(number: number, snapshot: outbox.snapshot, entries: [])
            write.entries = log.takeUnwritten(number: number)
            if hardState != outbox.saved { write.hardState = hardState }
            outbox.saved = hardState
            outbox.snapshot = nil
            outbox.ready.write = write
        }
        var own: [Message] = []
        for message in outbox.afterStorage {
            if outbox.stored < outbox.writes {
                outbox.waiting.append(.init(number: outbox.writes, message: message))
            } else if message.to == node {
                own.append(message)
            } else {
                outbox.ready.messages.append(withNewestAcknowledgement(message))
            }
        }
        outbox.afterStorage = []
        if !own.isEmpty {
            // No write is pending: handle this member's messages to itself at once.
            for message in own { receive(message) }
            return completeReady()
        }
        outbox.ready.toApply += log.takeCommitted()
        return outbox.ready
    }

    private mutating func stored(_ number: UInt64) {
        precondition(number <= outbox.writes, "only an issued write is reported as stored")
        outbox.stored = max(outbox.stored, number)
        log.stored(number)
        let free = outbox.waiting.filter { $0.number <= number }.map(\.message)
        outbox.waiting.removeAll { $0.number <= number }
        for message in free {
            if message.to == node {
                receive(message)
            } else if message.term == term || message.isPreVote {
                outbox.ready.messages.append(withNewestAcknowledgement(message))
            }
        }
        acknowledgeMore()
    }

    // MARK: Sending

    mutating func send(_ body: Message.Body, to peer: NodeNumber, term: Term? = nil) {
        outbox.ready.messages.append(
            Message(from: node, to: peer, term: term ?? self.term, body: body)
        )
    }

    /// Sends a message once all writes of this step and of earlier steps are on disk.
    mutating func sendAfterStorage(
        _ body: Message.Body,
        to peer: NodeNumber,
        term: Term? = nil
    ) {
        outbox.afterStorage.append(
            Message(from: node, to: peer, term: term ?? self.term, body: body)
        )
    }

    // MARK: Time

    private mutating func tick(_ dice: UInt32) {
        timers.election += 1
        if isLeader { return tickAsLeader() }
        let timeout = timers.timeout ?? settings.electionTicks + Int(dice) % settings.electionTicks
        timers.timeout = timeout
        guard timers.election >= timeout, log.mayCampaign(node) else { return }
        campaign(.preVote)
    }

    private mutating func tickAsLeader() {
        timers.heartbeat += 1
        leading.transferTicks += 1
        if leading.transferTicks >= settings.electionTicks { leading.transferTarget = nil }
        if timers.election >= settings.electionTicks {
            timers.election = 0
            let isHeard = configuration.outcome { peer in
                peer == node || leading.progress[peer]?.isActive == true
            }
            guard isHeard == .won else { return becomeFollower(term, leader: nil) }
            for peer in leading.members { leading.progress[peer]?.isActive = false }
        }
        if timers.heartbeat >= settings.heartbeatTicks {
            timers.heartbeat = 0
            sendHeartbeats()
        }
    }
}

extension Message {
    var isPreVote: Bool {
        switch body {
        case .voteRequest(let request): request.isPreVote
        case .voteResponse(let response): response.isPreVote
        default: false
        }
    }
}
