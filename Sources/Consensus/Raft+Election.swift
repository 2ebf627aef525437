internal import Vocabulary

/// Elections: pre-vote, votes, and who leads (thesis 3.4, 9.6).
extension Raft {
    enum Campaign {
        case preVote
        case election
        /// The leader asked for it.
        case transfer
    }

    mutating func campaign(_ kind: Campaign) {
        guard !isLeader, log.mayStand(node) else { return }
        timers.reset()
        votes = [:]
        leader = nil
        let isPreVote = kind == .preVote
        role = isPreVote ? .preCandidate : .candidate
        if !isPreVote {
            term += 1
            vote = node
        }
        let asked = isPreVote ? term + 1 : term
        let request = Message.VoteRequest(
            last: log.last,
            isPreVote: isPreVote,
            isTransfer: kind == .transfer
        )
        // A candidate that crashed must not stand again with the votes of a log it lost: what it
        // says of its log, and its term, is on disk first.
        for peer in configuration.electorate {
            if peer == node {
                let own = Message.VoteResponse(isGranted: true, isPreVote: isPreVote)
                sendAfterStorage(.voteResponse(own), to: node, term: asked)
            } else {
                sendAfterStorage(.voteRequest(request), to: peer, term: asked)
            }
        }
    }

    mutating func answer(_ request: Message.VoteRequest, _ message: Message) {
        let isFree = vote == nil && leader == nil
        let mayVote = vote == message.from || isFree || request.isPreVote && message.term > term
        let isUpToDate = request.last >= log.last
        let isGranted = mayVote && isUpToDate
        let response = Message.VoteResponse(isGranted: isGranted, isPreVote: request.isPreVote)
        if isGranted, !request.isPreVote {
            vote = message.from
            timers.reset()
        }
        // A refusal tells the term; a pre-vote is granted in the term it was asked for.
        sendAfterStorage(
            .voteResponse(response),
            to: message.from,
            term: isGranted ? message.term : term
        )
    }

    mutating func take(_ response: Message.VoteResponse, _ message: Message) {
        guard role == (response.isPreVote ? .preCandidate : .candidate) else { return }
        // A pre-vote for a campaign of long ago is none for this one.
        if response.isPreVote, response.isGranted, message.term != term + 1 { return }
        let peer = message.from
        if votes[peer] == nil { votes[peer] = response.isGranted }
        switch configuration.outcome({ votes[$0] }) {
        case .pending: break
        case .lost: becomeFollower(term, leader: nil)
        case .won: role == .preCandidate ? campaign(.election) : becomeLeader()
        }
    }

    mutating func becomeFollower(_ newTerm: Term, leader newLeader: NodeNumber?) {
        precondition(newTerm >= term, "terms never fall")
        refuseReads(.leaderChanged)
        if newTerm > term || leader != newLeader || role != .follower {
            following = FollowerState()
        }
        if newTerm > term {
            term = newTerm
            vote = nil
        }
        role = .follower
        leader = newLeader
        leading = LeadershipState()
        votes = [:]
        timers.reset()
    }

    private mutating func becomeLeader() {
        precondition(role == .candidate, "only a candidate is elected")
        role = .leader
        leader = node
        timers.reset()
        leading = LeadershipState()
        for entry in log.entries(from: max(log.commit + 1, log.firstIndex)) {
            leading.uncommittedBytes += entry.bytes
        }
        followMembers(next: log.lastIndex + 1, isActive: false)
        append([.empty])
        broadcastAppend()
    }

    /// Says whether a message that asks for a vote is to be passed over: whoever hears a leader
    /// does not help to replace it.
    func sticksToLeader(_ message: Message) -> Bool {
        guard case .voteRequest(let request) = message.body, !request.isTransfer else {
            return false
        }
        return leader != nil && timers.election < settings.electionTicks
    }
}
