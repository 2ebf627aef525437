internal import Consensus
internal import Seams
internal import Vocabulary

/// Wishes of this node, in the order of their numbers: those that gather, and one batch under way.
///
/// One batch at a time, because the state tells repetitions by the highest number it took: a wish
/// that overtook an earlier one would have that one taken for a repetition.
struct ProposalLine<Outcome: Sendable> {
    struct Proposal {
        var number: UInt64
        var bytes: [UInt8]
        var deadline: UInt64
        /// Made by the leader of this term as such: nobody else is asked to have it agreed on.
        var term: UInt64?
        var done: (Result<Outcome, ClusterError>) -> Void
    }

    enum Place: Equatable {
        /// To be sent as soon as there is somebody to send it to.
        case nowhere
        case inOwnLog
        case forwarded(call: UInt64, at: UInt64)
        /// In the leader's log, by its word.
        case accepted
        /// Not now: again at the next tick.
        case refused
    }

    var nextNumber: UInt64 = 1
    var nextCall: UInt64
    var gathering: [Proposal] = []
    var batch: [Proposal] = []
    var place = Place.nowhere

    init(firstCall: UInt64) { nextCall = firstCall }

    var isEmpty: Bool { gathering.isEmpty && batch.isEmpty }

    /// What became of the batch is not known any more.
    mutating func sendAgain() { place = .nowhere }

    mutating func fillBatch(bytesMax: Int) {
        guard batch.isEmpty else { return }
        place = .nowhere
        var bytes = 0
        var count = 0
        for proposal in gathering {
            bytes += proposal.bytes.count
            if bytes > bytesMax, count > 0 { break }
            count += 1
        }
        batch = Array(gathering.prefix(count))
        gathering.removeFirst(count)
    }

    mutating func remove(_ number: UInt64) -> Proposal? {
        guard let place = batch.firstIndex(where: { $0.number == number }) else { return nil }
        return batch.remove(at: place)
    }

    mutating func removeAll() -> [Proposal] {
        defer { (batch, gathering) = ([], []) }
        return batch + gathering
    }

    /// Those of a leader that this node is no more.
    mutating func removeOutlived(leading term: UInt64?) -> [Proposal] {
        let isOutlived = { (one: Proposal) in one.term != nil && one.term != term }
        let outlived = (batch + gathering).filter(isOutlived)
        if outlived.isEmpty { return [] }
        batch.removeAll(where: isOutlived)
        gathering.removeAll(where: isOutlived)
        return outlived
    }

    mutating func removeExpired(_ now: UInt64) -> [Proposal] {
        let expired = (batch + gathering).filter { $0.deadline <= now }
        if expired.isEmpty { return [] }
        batch.removeAll { $0.deadline <= now }
        gathering.removeAll { $0.deadline <= now }
        return expired
    }
}

extension RaftDriver {
    /// How long an answer of the leader may take before it is asked again.
    private static var patience: UInt64 { 500_000_000 }

    /// Has a command agreed on, wherever the leader is; `done` comes once it is applied here.
    ///
    /// - Parameters:
    ///   - timeout: In nanoseconds; then `noQuorum`, and the command may still come to be applied.
    ///   - isLeaders: It follows from what this node knows as the leader, so it is for this leader's
    ///     log alone: `notLeader` once another may lead. What is in that log by then comes to be
    ///     applied before the next leader is ready, or never.
    ///   - encode: Makes the command, with the number that keeps it from being applied twice.
    ///   - done: On the control lane, once.
    package func propose(
        timeout: UInt64 = 5_000_000_000,
        isLeaders: Bool = false,
        encode: (ProposalNumber) -> [UInt8],
        done: @escaping (Result<State.Outcome, ClusterError>) -> Void
    ) {
        if case .stopped = life {
            return done(.failure(.stopping))
        }
        if isLeaders, !status.isReadyToLead { return done(.failure(notLeader)) }
        let number = proposals.nextNumber
        proposals.nextNumber += 1
        let name = ProposalNumber(node: settings.node, boot: settings.boot, number: number)
        proposals.gathering.append(
            .init(
                number: number,
                bytes: encode(name),
                deadline: now + timeout,
                term: isLeaders ? raft.term : nil,
                done: done
            )
        )
        // Somebody waits: see at once whether the disk works again.
        if case .failing = life { recover() }
        run()
    }

    /// The same for those who are not on the control lane.
    package func propose(
        timeout: UInt64 = 5_000_000_000,
        isLeaders: Bool = false,
        encode: @escaping @Sendable (ProposalNumber) -> [UInt8]
    ) async throws(ClusterError) -> State.Outcome {
        let result: Result<State.Outcome, ClusterError> = await withUnsafeContinuation { waiter in
            lane.post {
                self.propose(timeout: timeout, isLeaders: isLeaders, encode: encode) {
                    waiter.resume(returning: $0)
                }
            }
        }
        return try result.get()
    }

    func sendProposals() {
        let outlived = proposals.removeOutlived(leading: raft.isLeader ? raft.term : nil)
        if !outlived.isEmpty {
            let error = notLeader
            for proposal in outlived { callbacks.append { proposal.done(.failure(error)) } }
        }
        proposals.fillBatch(bytesMax: settings.batchBytes)
        guard !proposals.batch.isEmpty, proposals.place == .nowhere else { return }
        let commands = proposals.batch.map(\.bytes)
        if raft.isLeader {
            proposals.place = .inOwnLog
            enqueue(.propose(commands)) { answer in
                if case .refused = answer { self.proposals.place = .refused }
            }
        } else if let leader = raft.leader {
            let call = proposals.nextCall
            proposals.nextCall += 1
            proposals.place = .forwarded(call: call, at: now)
            send(.forward(call: call, commands: commands), to: leader)
        }
    }

    /// Another node's wishes: whoever applies them tells their sender.
    func takeForwarded(_ commands: [[UInt8]], _ call: UInt64, from node: NodeNumber) {
        enqueue(.propose(commands)) { answer in
            if case .accepted = answer {
                self.send(.forwardAnswer(call: call, .accepted), to: node)
            } else {
                self.send(.forwardAnswer(call: call, .refused), to: node)
            }
        }
    }

    func take(_ answer: RaftFrame.ForwardAnswer, toCall call: UInt64) {
        guard case .forwarded(call, _) = proposals.place else { return }
        proposals.place = answer == .accepted ? .accepted : .refused
    }

    func resolve(_ command: AppliedCommand<State.Outcome>) {
        guard let name = command.proposal, name.node == settings.node, name.boot == settings.boot,
            let proposal = proposals.remove(name.number)
        else { return }
        callbacks.append { proposal.done(.success(command.outcome)) }
    }

    func expireProposals(_ now: UInt64) {
        let expired = proposals.removeExpired(now)
        if !expired.isEmpty {
            let error = noQuorum
            for proposal in expired { callbacks.append { proposal.done(.failure(error)) } }
        }
        switch proposals.place {
        case .refused: proposals.place = .nowhere
        case .forwarded(_, let at) where now >= at + Self.patience: proposals.place = .nowhere
        default: break
        }
    }

    func failEverybody(_ error: ClusterError) {
        for proposal in proposals.removeAll() {
            callbacks.append { proposal.done(.failure(error)) }
        }
        for read in reads.removeAll() { callbacks.append { read.done(.failure(error)) } }
        failChanges(error)
    }

    /// Why nothing was decided in time.
    var noQuorum: ClusterError {
        if let failureText { return ClusterError(code: .disk, description: failureText) }
        let (voters, answering, needed) = quorum
        let who = "\(answering) of \(voters) voters \(answering == 1 ? "answers" : "answer")"
        return ClusterError(
            code: .noQuorum,
            description: answering < needed
                ? "\(who) this node, and \(needed) are needed to decide anything. What was asked "
                    + "for may still happen when more of them are back."
                : "\(who) this node, but they did not decide in time. What was asked for may "
                    + "still happen."
        )
    }
}
