internal import Vocabulary

/// Received messages: first the term is compared, then the body is handled.
extension Raft {
    mutating func receive(_ message: Message) {
        if message.term > term {
            if ignoresVoteRequest(message) { return }
            switch message.body {
            case .voteRequest(let request) where request.isPreVote: break
            case .voteResponse(let response) where response.isPreVote && response.isGranted: break
            default: becomeFollower(message.term, leader: message.leader)
            }
        } else if message.term < term {
            return answerEarlierTerm(message)
        }
        switch message.body {
        case .voteRequest(let request): handleVoteRequest(request, message)
        case .voteResponse(let response): handleVoteResponse(response, message)
        case .append(let append):
            followLeader(message.from) { $0.handleAppend(append, from: message.from) }
        case .heartbeat(let beat):
            followLeader(message.from) { $0.handleHeartbeat(beat, from: message.from) }
        case .snapshot(let snapshot):
            followLeader(message.from) { $0.handleSnapshot(snapshot, from: message.from) }
        case .appendResponse(let response): handleAppendResponse(response, from: message.from)
        case .heartbeatResponse(let round):
            handleHeartbeatResponse(round: round, from: message.from)
        case .timeoutNow: if role == .follower { campaign(.transfer) }
        case .readRequest(let context):
            if isLeader { beginRead(context, for: message.from) }
        case .readResponse(let context, let index):
            outbox.ready.reads.append(ReadAnswer(context: context, result: .index(index)))
        case .newerTerm: break
        }
    }

    /// Follows the sender of a message that only the leader of the term sends, then handles the
    /// message.
    private mutating func followLeader(_ sender: NodeNumber, _ handle: (inout Raft) -> Void) {
        precondition(!isLeader, "two leaders of term \(term)")
        if role != .follower || leader != sender { becomeFollower(term, leader: sender) }
        timers.election = 0
        handle(&self)
    }

    /// Answers messages of earlier terms from a deposed leader or a pre-candidate, so that the
    /// sender learns the current term.
    ///
    /// Ignores all others.
    private mutating func answerEarlierTerm(_ message: Message) {
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
    /// The sender, if only a leader sends such a message; otherwise nil.
    fileprivate var leader: NodeNumber? {
        switch body {
        case .append, .heartbeat, .snapshot: from
        default: nil
        }
    }
}
