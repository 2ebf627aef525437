package import Vocabulary

/// A voter's record of its lease promises, and of the entries that it may not acknowledge yet.
///
/// A promise only delays what Raft may delay anyway: the acknowledgement of an entry. So a promise
/// cannot harm consistency, and a voter that forgot its promises in a crash only has to wait as
/// long as a promise can last.
///
/// - A node that has not applied the newest entry that deposes it is promised nothing.
/// - An entry waits for the promises that were given before it was appended. A node that is
///   promised something later has applied the entry, or learns of the new configuration with the
///   promise. The entry must not wait for those promises: if only the deposed node knows that the
///   entry is committed, it would wait forever.
package struct LeasePromises: Sendable {
    /// How an entry of the log affects promises.
    package enum Effect: Hashable, Sendable {
        case none
        /// Revokes these nodes' right to write vBuckets, without their consent.
        case deposes([NodeNumber])
        case changesVoters
    }

    /// The first entry that may not be acknowledged yet, and when to check again.
    package struct Hold: Hashable, Sendable {
        package var index: UInt64
        package var untilNanoseconds: UInt64

        package init(index: UInt64, untilNanoseconds: UInt64) {
            self.index = index
            self.untilNanoseconds = untilNanoseconds
        }
    }

    /// An entry that waits for promises to end.
    private struct Waiting: Sendable {
        var index: UInt64
        var effect: Effect
        /// When the last promise ends that was given before the entry was appended.
        var promisedUntil: UInt64
    }

    private let terms: LeaseTerms
    private let restartHold: UInt64
    private var promised: [NodeNumber: UInt64] = [:]
    /// Entries that are not known to be committed and may have to wait, in log order.
    private var waiting: [Waiting] = []
    /// By node: index of the newest entry that deposed it.
    ///
    /// Survives snapshots.
    private var deposedAt: [NodeNumber: UInt64]

    /// - Parameters:
    ///   - terms: The durations of leases and promises: the same on every node.
    ///   - now: The time of the start: promises given before the restart may still last.
    ///   - deposedAt: By node: the newest applied entry that deposed it.
    package init(_ terms: LeaseTerms, now: UInt64, deposedAt: [NodeNumber: UInt64] = [:]) {
        self.terms = terms
        restartHold = now + terms.promiseNanoseconds
        self.deposedAt = deposedAt
    }

    /// Records an entry appended to the log; it replaces all entries from its index on.
    package mutating func appended(_ effect: Effect, at index: UInt64) {
        waiting.removeAll { $0.index >= index }
        guard effect != .none else { return }
        // A node that is promised something from now on has applied the entry or learns of it.
        let until: UInt64? =
            switch effect {
            case .none: nil
            case .deposes(let nodes): nodes.compactMap { promised[$0] }.max()
            case .changesVoters: promised.values.max()
            }
        waiting.append(Waiting(index: index, effect: effect, promisedUntil: until ?? 0))
    }

    /// Records that entries through `index` are committed: they need no acknowledgement of this
    /// voter.
    package mutating func committed(through index: UInt64) {
        for entry in waiting where entry.index <= index {
            guard case .deposes(let nodes) = entry.effect else { continue }
            for node in nodes { deposedAt[node] = max(deposedAt[node] ?? 0, entry.index) }
        }
        waiting.removeAll { $0.index <= index }
    }

    /// Records that a snapshot replaced the log through an entry.
    ///
    /// Entries behind it, appended while the snapshot was written to disk, still wait.
    ///
    /// - Parameters:
    ///   - deposed: The snapshot's `ClusterState.deposedAt`.
    ///   - index: The snapshot's last entry.
    package mutating func restored(deposedAt deposed: [NodeNumber: UInt64], through index: UInt64) {
        waiting.removeAll { $0.index <= index }
        deposedAt.merge(deposed) { max($0, $1) }
    }

    /// Answers a beat: grants a promise, unless the sender has not applied the newest entry that
    /// deposes it.
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
            decision: .granted,
            voters: voters
        )
        if let index = newestDeposing(of: beat.node), index > beat.applied {
            reply.decision = .refused(index)
        } else {
            let until = now + terms.promiseNanoseconds
            promised[beat.node] = max(promised[beat.node] ?? 0, until)
        }
        return reply
    }

    /// The first entry that may not be acknowledged yet; nil if all may be.
    ///
    /// This also applies to a leader's acknowledgement of its own log.
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
