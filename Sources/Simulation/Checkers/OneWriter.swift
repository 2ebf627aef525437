package import Bytes
package import Vocabulary

/// Whether what clients were told of a vBucket's writes could have come of one writer at a time.
///
/// - Once a write was acknowledged in a newer history, none that is sent later is in an older one.
/// - Within a history, seqnos rise with time.
/// - What a stopped node says late of an older history does not count, where a newer one had
///   acknowledged by then. What was written durably holds, whoever says so, and when.
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
        /// When another one followed.
        var retired: [VBucketUUID: UInt64] = [:]
        /// Acknowledged at these times, newest last: for comparing with what was sent later.
        var steps: [(time: UInt64, seqno: Seqno)] = []
    }

    private var branches: [Place: Branches] = [:]
    private var late: Set<LateAnswers.Token> = []

    package init() {}

    /// A client was told `now` what it had asked for at `sentAt`: the flaws of that.
    package mutating func acknowledged(
        _ token: LateAnswers.Token,
        in place: Place,
        isDurable: Bool,
        sentAt: UInt64,
        now: UInt64
    ) -> [String] {
        var flaws: [String] = []
        let told = "\(place.vBucket) acknowledged \(token.seqno.value)"
        if !isDurable, late.contains(token) {
            flaws.append("\(told) in an older history after a newer one had acknowledged")
        }
        var known = branches[place] ?? Branches()
        defer { branches[place] = known }
        if let retired = known.retired[token.uuid] {
            if sentAt > retired {
                flaws.append("\(told) of an older history after a newer one had acknowledged")
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
            flaws.append("\(told) after \(earlier.seqno.value) of the same history")
        }
        let highest = max(known.steps.last?.seqno ?? token.seqno, token.seqno)
        known.steps.append((now, highest))
        if known.steps.count > 64 { known.steps.removeFirst(32) }
        return flaws
    }

    /// A node says this that was stopped while it was made.
    package mutating func saidLate(_ bytes: ByteView) {
        for token in LateAnswers.tokens(bytes)
        where branches.contains(where: { $0.value.retired[token.uuid] != nil }) {
            late.insert(token)
        }
    }
}
