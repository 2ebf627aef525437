package import Vocabulary

/// A voter's side of the leases: whom it promised what, and what it therefore holds back.
///
/// A promise only delays what Raft may delay anyway: the acknowledgement of an entry. So no
/// promise can cost consistency, and a voter that forgot its promises in a crash has only to wait
/// as long as one could last.
///
/// - Nobody is promised anything who has not applied what takes writing from it.
/// - An entry waits for the promises given before it was appended. Whoever is promised something
///   later is told of a configuration, and has applied what takes writing from it: to wait for those
///   as well would be to wait for ever, where only the one deposed knows that it is committed.
package struct LeasePromises: Sendable {
    /// What an entry of the log does, as far as promises are concerned.
    package enum Effect: Hashable, Sendable {
        case none
        /// Takes writing from these nodes, without their consent.
        case deposes([NodeNumber])
        case changesVoters
    }

    /// Where acknowledging has to stop, and when to look again.
    package struct Hold: Hashable, Sendable {
        package var index: UInt64
        package var untilNanoseconds: UInt64

        package init(index: UInt64, untilNanoseconds: UInt64) {
            self.index = index
            self.untilNanoseconds = untilNanoseconds
        }
    }

    private struct Waiting: Sendable {
        var index: UInt64
        var effect: Effect
        /// When the promises end that were given before it was appended.
        var promisedUntil: UInt64
    }

    private let terms: LeaseTerms
    private let restartHold: UInt64
    private var promised: [NodeNumber: UInt64] = [:]
    /// Entries that may have to wait: not known to be committed.
    private var waiting: [Waiting] = []
    /// The newest entry that takes writing from each node: kept across snapshots.
    private var deposedAt: [NodeNumber: UInt64]

    /// - Parameters:
    ///   - terms: How long leases and promises last: the same on every node.
    ///   - now: The time of the start; promises of the life before may last from here.
    ///   - deposedAt: By what is applied: the newest entry that took writing from each node.
    package init(_ terms: LeaseTerms, now: UInt64, deposedAt: [NodeNumber: UInt64] = [:]) {
        self.terms = terms
        restartHold = now + terms.promiseNanoseconds
        self.deposedAt = deposedAt
    }

    /// An entry entered the log; whatever stood from its index on is gone.
    package mutating func appended(_ effect: Effect, at index: UInt64) {
        waiting.removeAll { $0.index >= index }
        guard effect != .none else { return }
        // Whoever is promised something from here on has applied it, or is told of it.
        let until: UInt64? =
            switch effect {
            case .none: nil
            case .deposes(let nodes): nodes.compactMap { promised[$0] }.max()
            case .changesVoters: promised.values.max()
            }
        waiting.append(Waiting(index: index, effect: effect, promisedUntil: until ?? 0))
    }

    /// Everything up to here is committed: no acknowledgement of ours is needed any more.
    package mutating func committed(through index: UInt64) {
        for entry in waiting where entry.index <= index {
            guard case .deposes(let nodes) = entry.effect else { continue }
            for node in nodes { deposedAt[node] = max(deposedAt[node] ?? 0, entry.index) }
        }
        waiting.removeAll { $0.index <= index }
    }

    /// A snapshot took the place of the log up to an entry.
    ///
    /// What came behind it while it was on its way to disk waits on.
    ///
    /// - Parameters:
    ///   - deposed: What it says of who lost the right to write, by the newest entry that did that.
    ///   - index: Its last entry.
    package mutating func restored(deposedAt deposed: [NodeNumber: UInt64], through index: UInt64) {
        waiting.removeAll { $0.index <= index }
        deposedAt.merge(deposed) { max($0, $1) }
    }

    package mutating func answer(
        _ beat: LeaseBeat,
        naming voters: LeaseVoters,
        by voter: NodeNumber,
        now: UInt64
    ) -> LeaseReply {
        var reply = LeaseReply(
            voter: voter,
            boot: beat.boot,
            number: beat.number,
            verdict: .granted,
            voters: voters
        )
        if let index = newestDeposing(of: beat.node), index > beat.applied {
            reply.verdict = .refused(index)
        } else {
            let until = now + terms.promiseNanoseconds
            promised[beat.node] = max(promised[beat.node] ?? 0, until)
        }
        return reply
    }

    /// The first entry that may not be acknowledged yet, the own log's as a leader included.
    package func hold(now: UInt64) -> Hold? {
        for entry in waiting {
            let until = max(restartHold, entry.promisedUntil)
            if now < until { return Hold(index: entry.index, untilNanoseconds: until) }
        }
        return nil
    }

    private func newestDeposing(of node: NodeNumber) -> UInt64? {
        let last = waiting.last { entry in
            if case .deposes(let nodes) = entry.effect { return nodes.contains(node) }
            return false
        }
        return last?.index ?? deposedAt[node]
    }
}
