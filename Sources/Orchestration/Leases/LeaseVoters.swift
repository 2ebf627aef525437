package import Vocabulary

/// Who votes, as far as a lease is concerned, and by which entry of the log.
///
/// A lease holds while so many voters promise it that no quorum can do without one of them: a
/// blocking set, in a joint configuration one of each half.
package struct LeaseVoters: Hashable, Sendable {
    package var term: UInt64
    package var index: UInt64
    package var voters: [NodeNumber]
    /// The voters before, while both halves count; else empty.
    package var outgoing: [NodeNumber]

    package init(
        term: UInt64,
        index: UInt64,
        voters: [NodeNumber],
        outgoing: [NodeNumber] = []
    ) {
        self.term = term
        self.index = index
        self.voters = voters
        self.outgoing = outgoing
    }

    /// Stands behind the other one in the log, or in one that replaced it.
    func isNewer(than other: LeaseVoters) -> Bool {
        (term, index) > (other.term, other.index)
    }

    /// Until when a blocking set's promises all last.
    ///
    /// - Parameter promised: Until when each voter promised; nil where it did not.
    /// - Returns: The moment, or nil where no blocking set promised at all.
    func blocked(until promised: (NodeNumber) -> UInt64?) -> UInt64? {
        guard let new = Self.blocked(voters, promised) else { return nil }
        if outgoing.isEmpty { return new }
        return Self.blocked(outgoing, promised).map { min($0, new) }
    }

    private static func blocked(
        _ half: [NodeNumber],
        _ promised: (NodeNumber) -> UInt64?
    ) -> UInt64? {
        // As many as are left when a quorum lacks one.
        let needed = half.count - half.count / 2
        let until = half.compactMap(promised).sorted(by: >)
        guard needed > 0, until.count >= needed else { return nil }
        return until[needed - 1]
    }
}

/// How long a lease lasts, and a promise.
package struct LeaseTerms: Hashable, Sendable {
    /// By the holder's clock, from when it sent the beat.
    package var leaseNanoseconds: UInt64
    /// By the voter's clock, from when it granted.
    package let promiseNanoseconds: UInt64

    /// The rates of two clocks differ by so much at most, each from the true one.
    ///
    /// - Parameters:
    ///   - leaseNanoseconds: The lease; leases end within it when nobody answers.
    ///   - ratePerMille: In thousandths.
    package init(leaseNanoseconds: UInt64 = 500_000_000, ratePerMille: UInt64 = 10) {
        precondition(ratePerMille < 1_000, "a clock that stands still measures nothing")
        self.leaseNanoseconds = leaseNanoseconds
        let (fast, slow) = (1_000 + ratePerMille, 1_000 - ratePerMille)
        promiseNanoseconds = (leaseNanoseconds * fast + slow - 1) / slow
    }
}

/// "I am here": from every node to every node.
package struct LeaseBeat: Hashable, Sendable {
    package var node: NodeNumber
    /// Another one after each start: answers to an earlier life are none.
    package var boot: UInt64
    package var number: UInt64
    /// The last entry of the log that the sender has applied.
    package var applied: UInt64

    package init(node: NodeNumber, boot: UInt64, number: UInt64, applied: UInt64) {
        self.node = node
        self.boot = boot
        self.number = number
        self.applied = applied
    }
}

package struct LeaseReply: Hashable, Sendable {
    package enum Verdict: Hashable, Sendable {
        /// Nothing that takes writing from the sender will be acknowledged before the promise ends.
        case granted
        /// The sender has not applied the entry at this index, which takes writing from it.
        case refused(UInt64)
    }

    package var voter: NodeNumber
    package var boot: UInt64
    package var number: UInt64
    package var verdict: Verdict
    /// The newest configuration in the voter's log.
    package var voters: LeaseVoters

    package init(
        voter: NodeNumber,
        boot: UInt64,
        number: UInt64,
        verdict: Verdict,
        voters: LeaseVoters
    ) {
        self.voter = voter
        self.boot = boot
        self.number = number
        self.verdict = verdict
        self.voters = voters
    }
}
