package import Bytes
package import Vocabulary

/// The voter configuration of a lease, and the log entry that set it.
///
/// A lease is valid while a blocking set of voters promises it: so many that every quorum contains
/// one of them. A joint configuration needs a blocking set of each half.
package struct LeaseVoters: Hashable, Sendable {
    package var term: UInt64 = 0
    package var index: UInt64 = 0
    package var voters: [NodeNumber] = []
    /// The old voters while the configuration is joint; else empty.
    package var outgoing: [NodeNumber] = []

    package init() {}

    /// Whether it is behind the other configuration in the log, or in a log that replaced that one.
    func isNewer(than other: LeaseVoters) -> Bool {
        (term, index) > (other.term, other.index)
    }

    /// The latest time until which all promises of a blocking set last.
    ///
    /// - Parameter promised: The end of a voter's promise; nil if it gave none.
    /// - Returns: The time; nil if no blocking set has promised.
    func blocked(until promised: (NodeNumber) -> UInt64?) -> UInt64? {
        guard let new = Self.blocked(voters, promised) else { return nil }
        if outgoing.isEmpty { return new }
        return Self.blocked(outgoing, promised).map { min($0, new) }
    }

    private static func blocked(
        _ half: [NodeNumber],
        _ promised: (NodeNumber) -> UInt64?
    ) -> UInt64? {
        // One more than the voters outside a quorum of half.count / 2 + 1.
        let needed = half.count - half.count / 2
        let until = half.compactMap(promised).sorted(by: >)
        guard needed > 0, until.count >= needed else { return nil }
        return until[needed - 1]
    }
}

extension LeaseVoters: CodedFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&term, "term of voters")
        try coder.field(&index, "index of voters")
        try coder.field(&voters, "voters")
        try coder.field(&outgoing, "outgoing voters")
    }
}

/// The durations of a lease and of a promise.
package struct LeaseTerms: Hashable, Sendable {
    /// By the holder's clock, from the sending of the beat.
    package var leaseNanoseconds: UInt64
    /// By the voter's clock, from the grant; longer than the lease by the clocks' possible drift.
    package let promiseNanoseconds: UInt64

    /// - Parameters:
    ///   - leaseNanoseconds: The lease; it ends after this time if no voter answers.
    ///   - ratePerMille: The largest deviation of a clock's rate from true time, in thousandths.
    package init(leaseNanoseconds: UInt64 = 500_000_000, ratePerMille: UInt64 = 10) {
        precondition(ratePerMille < 1_000, "a clock that stands still measures nothing")
        self.leaseNanoseconds = leaseNanoseconds
        let (fast, slow) = (1_000 + ratePerMille, 1_000 - ratePerMille)
        promiseNanoseconds = (leaseNanoseconds * fast + slow - 1) / slow
    }
}

/// The lease part of a beat, which every node sends to every other node.
package struct LeaseBeat: Hashable, Sendable {
    package var node: NodeNumber
    /// Differs after each start of the sender: answers to an earlier boot are ignored.
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

extension LeaseBeat: CodedFields {
    package init() { self.init(node: NodeNumber(0), boot: 0, number: 0, applied: 0) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&node, "node")
        try coder.fixed(&boot, "boot")
        try coder.field(&number, "number")
        try coder.field(&applied, "applied index")
    }
}

/// A voter's answer to a beat.
package struct LeaseReply: Hashable, Sendable {
    /// Whether the voter gave a promise.
    package enum Decision: Hashable, Sendable {
        /// The voter acknowledges no entry that deposes the sender before the promise ends.
        case granted
        /// The sender has not applied the entry at this index, which deposes it.
        case refused(UInt64)
    }

    package var voter: NodeNumber
    package var boot: UInt64
    package var number: UInt64
    package var decision: Decision
    /// The newest configuration in the voter's log.
    package var voters: LeaseVoters
}

extension LeaseReply: ExtensibleFields {
    package init() {
        self.init(
            voter: NodeNumber(0),
            boot: 0,
            number: 0,
            decision: .granted,
            voters: LeaseVoters()
        )
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&voter, "voter")
        try coder.fixed(&boot, "boot")
        try coder.field(&number, "number")
        try coder.field(&decision, "decision")
        try coder.field(&voters, "voters")
    }
}

extension LeaseReply.Decision: Coded {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .refused(let index): writer.kind(0, index)
        case .granted: writer.kind(1)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("decision") {
        case 0: self = .refused(try reader.payload())
        case 1: self = .granted
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}
