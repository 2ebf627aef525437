internal import Vocabulary

/// Messages: first their term, then what they say.
extension Raft {
    mutating func receive(_ message: Message) {
        if message.term > term {
            if sticksToLeader(message) { return }
            switch message.body {
            case .voteRequest(let request) where request.isPreVote: break
            case .voteResponse(let response) where response.isPreVote && response.isGranted: break
            default: becomeFollower(message.term, leader: message.leader)
            }
        } else if message.term < term {
            return answerFromThePast(message)
        }
        switch message.body {
        case .voteRequest(let request): answer(request, message)
        case .voteResponse(let response): take(response, message)
        case .append(let append): hear(message) { $0.take(append, from: message.from) }
        case .heartbeat(let beat): hear(message) { $0.take(beat, from: message.from) }
        case .snapshot(let snapshot): hear(message) { $0.take(snapshot, from: message.from) }
        case .appendResponse(let response): take(response, from: message.from)
        case .heartbeatResponse(let round): take(round: round, from: message.from)
        case .timeoutNow: if role == .follower { campaign(.transfer) }
        case .readRequest(let context):
            if isLeader { beginRead(context, for: message.from) }
        case .readResponse(let context, let index):
            outbox.ready.reads.append(ReadAnswer(context: context, result: .index(index)))
        case .newerTerm: break
        }
    }

    /// Whoever says this leads the term.
    private mutating func hear(_ message: Message, _ take: (inout Raft) -> Void) {
        precondition(!isLeader, "two leaders of term \(term)")
        if role != .follower || leader != message.from {
            becomeFollower(term, leader: message.from)
        }
        timers.election = 0
        take(&self)
    }

    /// A leader that was replaced learns it, and so does a candidate that asks before it stands.
    private mutating func answerFromThePast(_ message: Message) {
        switch message.body {
        case .append, .heartbeat, .snapshot: send(.newerTerm, to: message.from)
        case .voteRequest(let request) where request.isPreVote:
            let response = Message.VoteResponse(isGranted: false, isPreVote: true)
            sendAfterStorage(.voteResponse(response), to: message.from)
        default: break
        }
    }
}

extension Message {
    /// The leader, where only a leader says such things.
    fileprivate var leader: NodeNumber? {
        switch body {
        case .append, .heartbeat, .snapshot: from
        default: nil
        }
    }
}
