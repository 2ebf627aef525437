internal import Consensus
internal import Seams
internal import Vocabulary

/// This node's proposals, in the order of their numbers: the waiting ones, and one batch under way.
///
/// One batch at a time, because the state remembers only the newest `ProposalTable.window` numbers of
/// this boot (64). If as many later proposals overtook a proposal, the state would drop it as a
/// repetition.
struct ProposalLine<Outcome: Sendable> {
    struct Proposal {
        var number: UInt64
        var bytes: [UInt8]
        var deadline: UInt64
        /// Made by this node as the leader of this term: it must not be forwarded to another
        /// leader.
        var term: UInt64?
        var done: (Result<Outcome, ClusterError>) -> Void
    }

    enum Place: Equatable {
        /// Sent as soon as there is a leader.
        case nowhere
        case inOwnLog
        case forwarded(call: UInt64, at: UInt64)
        /// In the leader's log, by its answer.
        case accepted
        /// Refused for now; sent again at the next tick.
        case refused
    }

    var nextNumber: UInt64 = 1
    var nextCall: UInt64
    var gathering: [Proposal] = []
    var batch: [Proposal] = []
    var place = Place.nowhere

    init(firstCall: UInt64) { nextCall = firstCall }

    var isEmpty: Bool { gathering.isEmpty && batch.isEmpty }

    /// The fate of the batch is unknown: send it again.
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

    /// Removes the proposals made as the leader of another term than `term`.
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
    /// How long to wait for the leader's answer before the batch is sent again.
    private static var timeoutNanoseconds: UInt64 { 500_000_000 }

    /// Proposes a command to the current leader; `done` is called once it is applied here.
    ///
    /// - Parameters:
    ///   - timeout: In nanoseconds. Afterwards `noQuorum` is reported; the command may still be
    ///     applied.
    ///   - isLeaders: Whether the command follows from what this node knows as the leader. Then it
    ///     enters only this leader's log, and `notLeader` is reported once another node may lead.
    ///     If it is in that log, it is applied before the next leader is ready, or never.
    ///   - encode: Makes the command with the number that prevents a repeated application.
    ///   - done: Called on the control lane, once.
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
        // A caller waits: check at once whether the disk works again.
        if case .failing = life { recover() }
        run()
    }

    /// Proposes a command, for callers on any thread.
    ///
    /// - Throws: `ClusterError`: `.noQuorum` after the timeout, `.disk`, `.notLeader`, or
    ///   `.stopping`.
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

    /// Proposes another node's commands; that node learns the outcome by applying them itself.
    func proposeForwarded(_ commands: [[UInt8]], _ call: UInt64, from node: NodeNumber) {
        enqueue(.propose(commands)) { answer in
            var isAccepted = false
            if case .accepted = answer { isAccepted = true }
            self.send(.forwardAnswer(call: call, isAccepted: isAccepted), to: node)
        }
    }

    func handleForwardAnswer(toCall call: UInt64, isAccepted: Bool) {
        guard case .forwarded(call, _) = proposals.place else { return }
        proposals.place = isAccepted ? .accepted : .refused
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
        case .forwarded(_, let at) where now >= at + Self.timeoutNanoseconds:
            proposals.place = .nowhere
        default: break
        }
    }

    func failAllCallers(_ error: ClusterError) {
        for proposal in proposals.removeAll() {
            callbacks.append { proposal.done(.failure(error)) }
        }
        for read in reads.removeAll() { callbacks.append { read.done(.failure(error)) } }
        failChanges(error)
    }

    /// The error of a proposal that was not agreed on in time.
    var noQuorum: ClusterError {
        if let failureText { return ClusterError(code: .disk, description: failureText) }
        let (voters, answering, needed) = quorum
        let subject = "\(answering) of \(voters) voters \(answering == 1 ? "answers" : "answer")"
        return ClusterError(
            code: .noQuorum,
            description: answering < needed
                ? "\(subject) this node, and \(needed) are needed to decide anything. The change "
                    + "may still happen when more of them answer."
                : "\(subject) this node, but did not agree in time. The change may still happen."
        )
    }
}
