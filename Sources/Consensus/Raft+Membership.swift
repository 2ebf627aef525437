internal import Vocabulary

/// Changes of who votes (thesis 4): learners first, both halves in between.
extension Raft {
    mutating func propose(_ change: ConfigurationChange) {
        if let refusal = refusal() { return refuse(refusal) }
        // Something of this term must be committed first: else two leaders that do not know of each
        // other's change could each have a majority.
        guard log.configurationIndex <= log.commit, log.term(at: log.commit) == term else {
            return refuse(.changeInProgress)
        }
        let next: VoterConfiguration
        do {
            next = try configuration.applying(change)
        } catch {
            return refuse(.configuration(error))
        }
        let first = LogPosition(term: term, index: log.lastIndex + 1)
        append([.configuration(next)])
        outbox.ready.proposal = .accepted(first: first, count: 1)
        advanceCommit()
        broadcastAppend()
    }

    /// Takes the members from the configuration in force.
    ///
    /// Who is leaving is sent entries until its removal is committed: it should know of that, and
    /// stand for no election.
    mutating func followMembers(next: LogIndex, isActive: Bool) {
        leading.members = log.members
        var progress: [NodeNumber: Progress] = [:]
        for member in leading.members {
            if let known = leading.progress[member] {
                progress[member] = known
                continue
            }
            progress[member] = Progress(next: next, isActive: isActive)
        }
        leading.progress = progress
        countOneself()
        leading.progress[node]?.state = .replicate
        if let target = leading.transferTarget, !configuration.voters.contains(target) {
            leading.transferTarget = nil
        }
    }

    /// The newest configuration is committed: leave a joint one, or go if it has no place for us.
    mutating func finishChange() {
        guard isLeader, log.configurationIndex <= log.commit else { return }
        if leading.members != configuration.members {
            followMembers(next: log.lastIndex + 1, isActive: true)
        }
        if configuration.isJoint {
            guard configuration.leavesByItself else { return }
            append([.configuration(configuration.left)])
            broadcastAppend()
        } else if !configuration.isVoter(node) {
            becomeFollower(term, leader: nil)
        }
    }

    // MARK: Handing over (thesis 3.10)

    mutating func transfer(to target: NodeNumber) {
        guard isLeader else { return refuse(.notLeader(leader)) }
        guard target != node, configuration.voters.contains(target) else {
            return refuse(.noSuchVoter)
        }
        // It has an election timeout to succeed, however often it is asked for; then proposals are
        // taken again. Not the timer of the quorum: who is asked again and again must still notice
        // that nobody answers.
        if leading.transferTarget != target { leading.transferTicks = 0 }
        leading.transferTarget = target
        sendAppend(to: target, evenEmpty: false)
        handOverIfReady(to: target)
    }

    mutating func handOverIfReady(to peer: NodeNumber) {
        guard leading.transferTarget == peer,
            leading.progress[peer]?.received == log.lastIndex
        else { return }
        send(.timeoutNow, to: peer)
    }
}
