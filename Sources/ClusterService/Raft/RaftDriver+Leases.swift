internal import Consensus
package import Orchestration
internal import Seams
internal import Vocabulary

/// Promises to lease holders, as delays of acknowledgements (docs of `LeasePromises`).
extension RaftDriver {
    /// Answers a beat; a promise given here holds back what would break it.
    package func answer(_ beat: LeaseBeat) -> LeaseReply {
        promises.answer(beat, naming: leaseVoters, by: settings.node, now: now)
    }

    /// The newest configuration in the log, and a place by which two of them can be compared.
    ///
    /// The log forgets where an old configuration stood: then the snapshot's place, which lies
    /// behind it and before any newer one, orders them as well.
    package var leaseVoters: LeaseVoters {
        leaseVoters(raft.configuration, at: raft.log.configurationIndex)
    }

    /// The configuration that is agreed on, while there is a newer one; nil where there is none.
    ///
    /// The newer one may never be: as long as nobody else has it, the others decide by this one.
    package var agreedLeaseVoters: LeaseVoters? {
        raft.log.configurationBefore.map { leaseVoters($0.configuration, at: $0.index) }
    }

    private func leaseVoters(_ configuration: VoterConfiguration, at index: LogIndex) -> LeaseVoters
    {
        var place = raft.log.snapshot.position
        if index > place.index, let term = raft.log.term(at: index) {
            place = LogPosition(term: term, index: index)
        }
        return LeaseVoters(
            term: place.term,
            index: place.index,
            voters: configuration.voters,
            outgoing: configuration.outgoing
        )
    }

    /// This node was invited, and nothing of the cluster's log has come.
    package var isUninformed: Bool { raft.configuration.members.isEmpty }

    /// Whether something in the log takes writing from this node and is not applied.
    package var isDeposedUnapplied: Bool {
        raft.log.entries(from: max(applied + 1, raft.log.firstIndex)).contains { entry in
            guard case .deposes(let nodes) = effect(of: entry) else { return false }
            return nodes.contains(settings.node)
        }
    }

    private func effect(of entry: LogEntry) -> LeasePromises.Effect {
        switch entry.payload {
        case .empty: .none
        // The next voters are asked beside those of before, and then alone: only the first takes
        // something from a promise. Who listens and does not vote has none to give.
        case .configuration(let next): next.isJoint ? .changesVoters : .none
        case .command(let bytes): state.effect(of: bytes)
        }
    }

    /// Entries enter the log: what they have to wait for is settled before any acknowledgement.
    func noticePromises(_ write: StorageWrite) {
        for entry in write.entries { promises.appended(effect(of: entry), at: entry.index) }
        if !write.entries.isEmpty { holdBack() }
    }

    /// What is in the log when a life begins.
    func noticeLog() {
        for entry in raft.log.entries(from: max(raft.log.firstIndex, raft.log.snapshot.index + 1)) {
            promises.appended(effect(of: entry), at: entry.index)
        }
        promises.committed(through: raft.commit)
        hold = nil
        holdBack()
    }

    /// A snapshot took the place of the log: its deposing entries are known by the state only.
    func noticeSnapshot() {
        restorePromises()
        promises.committed(through: raft.commit)
        holdBack()
    }

    /// What the state that was restored says of them; what to hold back follows from the log.
    func restorePromises() {
        promises.restored(deposedAt: state.deposedAt, through: applied)
    }

    /// Commits end what had to wait, and so does time.
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

    /// Somebody has to look again when the promises end.
    ///
    /// Where the disk fails nothing is acknowledged, nor released: to look would be to look again at
    /// once, until it is well.
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
