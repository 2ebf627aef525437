internal import Consensus
package import Orchestration
internal import Seams

/// Promises to lease holders, as delays of acknowledgements (docs of `LeasePromises`).
extension RaftDriver {
    /// Answers a beat; a promise in the answer withholds acknowledgements that would break it.
    package func answer(_ beat: LeaseBeat) -> LeaseReply {
        promises.answer(beat, naming: leaseVoters, by: settings.node, now: now)
    }

    /// The newest configuration in the log, with a position that orders configurations.
    ///
    /// If the log was cut behind the configuration's entry, the snapshot's position is used: it is
    /// behind that entry and before any newer configuration.
    package var leaseVoters: LeaseVoters {
        leaseVoters(raft.configuration, at: raft.log.configurationIndex)
    }

    /// The agreed configuration while a newer one is in the log; nil otherwise.
    ///
    /// The newer one may never be agreed on: until another node has it, other nodes decide by this
    /// one.
    package var agreedLeaseVoters: LeaseVoters? {
        raft.log.configurationBefore.map { leaseVoters($0.configuration, at: $0.index) }
    }

    private func leaseVoters(_ configuration: VoterConfiguration, at index: LogIndex) -> LeaseVoters
    {
        var place = raft.log.snapshot.position
        if index > place.index, let term = raft.log.term(at: index) {
            place = LogPosition(term: term, index: index)
        }
        var voters = LeaseVoters()
        (voters.term, voters.index) = (place.term, place.index)
        (voters.voters, voters.outgoing) = (configuration.voters, configuration.outgoing)
        return voters
    }

    /// Whether this node was invited and has received nothing of the cluster's log.
    package var isUninformed: Bool { raft.configuration.members.isEmpty }

    /// Whether an unapplied entry of the log deposes this node.
    package var isDeposedUnapplied: Bool {
        raft.log.entries(from: max(applied + 1, raft.log.firstIndex)).contains { entry in
            guard case .deposes(let nodes) = effect(of: entry) else { return false }
            return nodes.contains(settings.node)
        }
    }

    private func effect(of entry: LogEntry) -> LeasePromises.Effect {
        switch entry.payload {
        case .empty: .none
        // A joint configuration adds the next voters, the final one only removes the old ones: only
        // the first can break a promise. A learner gives no promises.
        case .configuration(let next): next.isJoint ? .changesVoters : .none
        case .command(let bytes): state.effect(of: bytes)
        }
    }

    /// Records new entries: what they must wait for is known before any acknowledgement is sent.
    func recordPromises(_ write: StorageWrite) {
        for entry in write.entries { promises.appended(effect(of: entry), at: entry.index) }
        if !write.entries.isEmpty { holdBack() }
    }

    /// Records the entries that are in the log at a start.
    func recordLog() {
        for entry in raft.log.entries(from: max(raft.log.firstIndex, raft.log.snapshot.index + 1)) {
            promises.appended(effect(of: entry), at: entry.index)
        }
        promises.committed(through: raft.commit)
        hold = nil
        holdBack()
    }

    /// A snapshot replaced the log: its deposing entries are known only from the state.
    func recordSnapshot() {
        restorePromises()
        promises.committed(through: raft.commit)
        holdBack()
    }

    /// Restores the deposing entries from the state; entries to withhold follow from the log.
    func restorePromises() {
        promises.restored(deposedAt: state.deposedAt, through: applied)
    }

    /// Updates what is withheld: a commit or the passing of time can end it.
    func releasePromises() {
        promises.committed(through: raft.commit)
        holdBack()
    }

    private func holdBack() {
        let now = now
        let next = promises.hold(now: now)
        if next?.index != hold?.index { stepNext(.withhold(from: next?.index)) }
        hold = next
    }

    /// Arms the timer for the end of the promises.
    ///
    /// During a disk error no acknowledgement is sent or released, and the timer would fire again
    /// at once; so it is not armed.
    func armHold() {
        var until = hold?.untilNanoseconds
        if case .running = life {} else { until = nil }
        guard timers.promisesUntil != until, !disk.isInline else { return }
        timers.promises?.cancel()
        timers.promisesUntil = until
        guard let until else { return }
        let now = now
        timers.promises = lane.post(after: until > now ? until - now : 0) {
            self.timers.promisesUntil = nil
            self.run()
        }
    }
}
