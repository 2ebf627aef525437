package import Bytes
package import Vocabulary

/// Checks that the acknowledgements of a vBucket's writes are those of one active copy at a time.
///
/// - After a write was acknowledged in a newer history, no write that is sent later is acknowledged
///   in an older one.
/// - Within a history, seqnos increase with time.
/// - A stopped node must not acknowledge a write of an older history late, after a newer history
///   had acknowledged. A durable write holds whichever node acknowledges it, and when.
package struct OneWriter: Sendable {
    package struct Place: Hashable, Sendable {
        package let bucket: String
        package let vBucket: VBucketID

        package init(bucket: String, vBucket: VBucketID) {
            self.bucket = bucket
            self.vBucket = vBucket
        }
    }

    private struct Branches {
        var current: VBucketUUID?
        /// The times at which the next history acknowledged first.
        var retired: [VBucketUUID: UInt64] = [:]
        /// Times and highest seqnos of acknowledgements, newest last, to compare with later
        /// requests.
        var steps: [(time: UInt64, seqno: Seqno)] = []
    }

    private var branches: [Place: Branches] = [:]
    private var late: Set<LateAnswers.Token> = []

    package init() {}

    /// Records an acknowledgement at `now` of a request sent at `sentAt`; returns its flaws.
    package mutating func acknowledged(
        _ token: LateAnswers.Token,
        in place: Place,
        isDurable: Bool,
        sentAt: UInt64,
        now: UInt64
    ) -> [String] {
        var flaws: [String] = []
        let subject = "\(place.vBucket) acknowledged \(token.seqno.value)"
        if !isDurable, late.contains(token) {
            flaws.append("\(subject) in an older history after a newer one had acknowledged")
        }
        var known = branches[place] ?? Branches()
        defer { branches[place] = known }
        if let retired = known.retired[token.uuid] {
            if sentAt > retired {
                flaws.append("\(subject) of an older history after a newer one had acknowledged")
            }
            return flaws
        }
        if known.current != token.uuid {
            if let before = known.current { known.retired[before] = now }
            known.current = token.uuid
            known.steps = []
        }
        if let earlier = known.steps.last(where: { $0.time < sentAt }),
            earlier.seqno >= token.seqno
        {
            flaws.append("\(subject) after \(earlier.seqno.value) of the same history")
        }
        let highest = max(known.steps.last?.seqno ?? token.seqno, token.seqno)
        known.steps.append((now, highest))
        if known.steps.count > 64 { known.steps.removeFirst(32) }
        return flaws
    }

    /// Records the output of a node that was stopped while it made this output.
    package mutating func recordLateOutput(_ bytes: ByteView) {
        for token in LateAnswers.tokens(bytes)
        where branches.contains(where: { $0.value.retired[token.uuid] != nil }) {
            late.insert(token)
        }
    }
}
