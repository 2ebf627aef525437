internal import Vocabulary

/// Elections: pre-votes, votes and the transition to leader (thesis 3.4, 9.6).
extension Raft {
    enum Campaign {
        case preVote
        case election
        /// Requested by the leader with `timeoutNow`; goes straight to the election.
        case transfer
    }

    /// Requests votes from all voters.
    ///
    /// Does nothing on a leader, or on a node that may not campaign.
    mutating func campaign(_ kind: Campaign) {
        guard !isLeader, log.mayCampaign(node) else { return }
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
        // The candidate's term, and the log it advertises, must be on disk before a request leaves:
        // after a crash it must not win by votes that were granted to entries it has lost.
        for peer in configuration.electorate {
            if peer == node {
                let own = Message.VoteResponse(isGranted: true, isPreVote: isPreVote)
                sendAfterStorage(.voteResponse(own), to: node, term: asked)
            } else {
                sendAfterStorage(.voteRequest(request), to: peer, term: asked)
            }
        }
    }

    mutating func handleVoteRequest(_ request: Message.VoteRequest, _ message: Message) {
        let isFree = vote == nil && leader == nil
        let mayVote = vote == message.from || isFree || request.isPreVote && message.term > term
        let isUpToDate = request.last >= log.last
        let isGranted = mayVote && isUpToDate
        let response = Message.VoteResponse(isGranted: isGranted, isPreVote: request.isPreVote)
        if isGranted, !request.isPreVote {
            vote = message.from
            timers.reset()
        }
        // A refusal carries this member's term; a granted vote carries the term of the request.
        sendAfterStorage(
            .voteResponse(response),
            to: message.from,
            term: isGranted ? message.term : term
        )
    }

    mutating func handleVoteResponse(_ response: Message.VoteResponse, _ message: Message) {
        guard role == (response.isPreVote ? .preCandidate : .candidate) else { return }
        // Ignore a pre-vote that was granted to an earlier campaign.
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
        precondition(newTerm >= term, "terms never decrease")
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
        precondition(role == .candidate, "only a candidate becomes leader")
        role = .leader
        leader = node
        timers.reset()
        leading = LeadershipState()
        for entry in log.entries(from: max(log.commit + 1, log.firstIndex)) {
            leading.uncommittedBytes += entry.bytes
        }
        updateMembers(next: log.lastIndex + 1, isActive: false)
        append([.empty])
        broadcastAppend()
    }

    /// Whether to ignore a vote request because this member heard from a leader within the election
    /// timeout (thesis 4.2.3).
    ///
    /// Requests of a leadership transfer are never ignored.
    func ignoresVoteRequest(_ message: Message) -> Bool {
        guard case .voteRequest(let request) = message.body, !request.isTransfer else {
            return false
        }
        return leader != nil && timers.election < settings.electionTicks
    }
}
