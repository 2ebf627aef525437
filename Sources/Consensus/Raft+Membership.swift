internal import Vocabulary

/// Changes of the voter configuration (thesis 4): by way of learners and joint configurations.
extension Raft {
    mutating func propose(_ change: ConfigurationChange) {
        if let refusal = proposalRefusal() { return refuseProposal(refusal) }
        // An entry of this term must be committed first. Otherwise two leaders that do not know
        // each other's change could each have a majority.
        guard log.configurationIndex <= log.commit, log.term(at: log.commit) == term else {
            return refuseProposal(.changeInProgress)
        }
        let next: VoterConfiguration
        do {
            next = try configuration.applying(change)
        } catch {
            return refuseProposal(.configuration(error))
        }
        let first = LogPosition(term: term, index: log.lastIndex + 1)
        append([.configuration(next)])
        outbox.ready.proposal = .accepted(first: first, count: 1)
        advanceCommit()
        broadcastAppend()
    }

    /// Updates the members that the leader replicates to; `next` and `isActive` are for new ones.
    ///
    /// A member that is being removed receives entries until its removal is committed, so that it
    /// learns of the removal and does not campaign.
    mutating func updateMembers(next: LogIndex, isActive: Bool) {
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
        updateOwnProgress()
        leading.progress[node]?.state = .replicate
        if let target = leading.transferTarget, !configuration.voters.contains(target) {
            leading.transferTarget = nil
        }
    }

    /// Once the newest configuration is committed: leaves a joint configuration, or steps down if
    /// this member is no voter in it.
    mutating func finishChange() {
        guard isLeader, log.configurationIndex <= log.commit else { return }
        if leading.members != configuration.members {
            updateMembers(next: log.lastIndex + 1, isActive: true)
        }
        if configuration.isJoint {
            guard configuration.leavesByItself else { return }
            append([.configuration(configuration.afterLeaving)])
            broadcastAppend()
        } else if !configuration.isVoter(node) {
            becomeFollower(term, leader: nil)
        }
    }

    // MARK: Leadership transfer (thesis 3.10)

    mutating func transfer(to target: NodeNumber) {
        guard isLeader else { return refuseProposal(.notLeader(leader)) }
        guard target != node, configuration.voters.contains(target) else {
            return refuseProposal(.noSuchVoter)
        }
        // A transfer times out after one election timeout, even if it is requested repeatedly; then
        // the leader accepts proposals again. It has a timer of its own: if a request restarted the
        // timer of the quorum check, a leader that has lost its quorum would never step down.
        if leading.transferTarget != target { leading.transferTicks = 0 }
        leading.transferTarget = target
        sendAppend(to: target, evenEmpty: false)
        completeTransferIfReady(to: target)
    }

    mutating func completeTransferIfReady(to peer: NodeNumber) {
        guard leading.transferTarget == peer,
            leading.progress[peer]?.received == log.lastIndex
        else { return }
        send(.timeoutNow, to: peer)
    }
}
