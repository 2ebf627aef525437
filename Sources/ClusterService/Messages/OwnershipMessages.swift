internal import Bytes
package import Vocabulary

extension CopyReport: PeerPayload {
    init?(_ reader: inout ByteReader) {
        guard let vBucket = reader.leb(UInt16.self),
            let state = reader.bigEndian(UInt8.self).flatMap(VBucketState.init(rawValue:)),
            let fence = reader.leb128(), let branch = reader.leb128(),
            let covered = reader.leb128(), let history = reader.bigEndian(UInt64.self),
            let high = reader.leb128(),
            let persisted = reader.leb128(), let isIntact = reader.flag(),
            let wasCleanStop = reader.flag(), let boot = reader.bigEndian(UInt64.self),
            let isSealed = reader.flag(), let hasCaughtUp = reader.flag(),
            let isUnreadable = reader.flag()
        else { return nil }
        self.init(
            vBucket: VBucketID(vBucket),
            state: state,
            fence: fence,
            position: CopyPosition(branchFence: branch, covered: Seqno(covered)),
            history: VBucketUUID(history),
            high: Seqno(high),
            persisted: Seqno(persisted),
            isIntact: isIntact,
            hasCaughtUp: hasCaughtUp,
            wasCleanStop: wasCleanStop,
            boot: boot,
            isSealed: isSealed,
            isUnreadable: isUnreadable
        )
    }

    func append(to writer: ByteWriter) {
        writer.append(leb: vBucket.number)
        writer.append(state.rawValue)
        writer.append(leb: fence)
        writer.append(leb: position.branchFence)
        writer.append(leb: position.covered.value)
        writer.append(bigEndian: history.value)
        writer.append(leb: high.value)
        writer.append(leb: persisted.value)
        writer.append(isIntact)
        writer.append(wasCleanStop)
        writer.append(bigEndian: boot)
        writer.append(isSealed)
        writer.append(hasCaughtUp)
        writer.append(isUnreadable)
    }
}

/// A vBucket and the fence that the requesting node knows.
package struct FencedVBucket: Hashable, Sendable {
    package var vBucket: VBucketID
    package var fence: UInt64

    package init(_ vBucket: VBucketID, fence: UInt64) {
        self.vBucket = vBucket
        self.fence = fence
    }
}

/// The part of a leader's call that concerns one vBucket.
protocol LeaderSubject: PeerPayload, Hashable {
    var vBucket: VBucketID { get }
}

extension FencedVBucket: LeaderSubject {
    init?(_ reader: inout ByteReader) {
        guard let vBucket = reader.leb(UInt16.self), let fence = reader.leb128() else { return nil }
        self.init(VBucketID(vBucket), fence: fence)
    }

    func append(to writer: ByteWriter) {
        writer.append(leb: vBucket.number)
        writer.append(leb: fence)
    }
}

/// A leader's call about copies of one bucket.
///
/// - `index` is the leader's applied index: the receiver applies the log up to it before it carries
///   out the call.
struct LeaderCall<Subject: LeaderSubject>: PeerPayload, Hashable {
    var term: UInt64
    var index: UInt64
    var bucketUUID: String
    var subjects: [Subject]

    init(term: UInt64, index: UInt64, bucketUUID: String, subjects: [Subject] = []) {
        self.term = term
        self.index = index
        self.bucketUUID = bucketUUID
        self.subjects = subjects
    }

    init?(_ reader: inout ByteReader) {
        guard let term = reader.leb128(), let index = reader.leb128(),
            let bucketUUID = reader.text(), let subjects = reader.all(Subject.self)
        else { return nil }
        self.init(term: term, index: index, bucketUUID: bucketUUID, subjects: subjects)
    }

    func append(to writer: ByteWriter) {
        writer.append(leb: term)
        writer.append(leb: index)
        writer.append(counted: bucketUUID)
        writer.append(all: subjects)
    }
}

/// A call to report, seal or hand over copies.
///
/// A report call without vBuckets is about all copies of the node.
typealias VBucketsCall = LeaderCall<FencedVBucket>

/// A call to activate copies.
typealias ActivateCall = LeaderCall<ActivationSubject>

/// The answer to a report or seal call: the current reports of the copies.
struct ReportsAnswer: PeerPayload, Hashable {
    /// The reason why the call was not carried out; empty if it was.
    var refusal: String
    var reports: [CopyReport]

    init(reports: [CopyReport], refusal: String = "") {
        self.reports = reports
        self.refusal = refusal
    }

    init?(_ reader: inout ByteReader) {
        guard let refusal = reader.text(), let reports = reader.all(CopyReport.self) else {
            return nil
        }
        self.init(reports: reports, refusal: refusal)
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: refusal)
        writer.append(all: reports)
    }
}

/// A copy that its node is to activate, and the position that the map entry requires of it.
package struct ActivationSubject: Hashable, Sendable {
    package var vBucket: VBucketID
    package var fence: UInt64
    /// The minimum position of a promoted copy; nil for a takeover, whose copy must be complete.
    package var expected: CopyPosition?

    package init(_ vBucket: VBucketID, fence: UInt64, expected: CopyPosition?) {
        self.vBucket = vBucket
        self.fence = fence
        self.expected = expected
    }
}

extension ActivationSubject: LeaderSubject {
    init?(_ reader: inout ByteReader) {
        guard let vBucket = reader.leb(UInt16.self), let fence = reader.leb128(),
            let isPromotion = reader.flag()
        else { return nil }
        self.init(VBucketID(vBucket), fence: fence, expected: nil)
        if isPromotion {
            guard let branch = reader.leb128(), let covered = reader.leb128() else { return nil }
            expected = CopyPosition(branchFence: branch, covered: Seqno(covered))
        }
    }

    func append(to writer: ByteWriter) {
        writer.append(leb: vBucket.number)
        writer.append(leb: fence)
        writer.append(expected != nil)
        if let expected {
            writer.append(leb: expected.branchFence)
            writer.append(leb: expected.covered.value)
        }
    }
}

/// The answer to an activation or hand-over call: the vBuckets for which it was carried out.
///
/// `seqno` is the last seqno of a handed-over copy, and 0 for an activated one.
struct DoneAnswer: PeerPayload, Hashable {
    struct Done: PeerPayload, Hashable {
        var vBucket: VBucketID
        var seqno: Seqno

        init(_ vBucket: VBucketID, _ seqno: Seqno) {
            self.vBucket = vBucket
            self.seqno = seqno
        }

        init?(_ reader: inout ByteReader) {
            guard let vBucket = reader.leb(UInt16.self), let seqno = reader.leb128() else {
                return nil
            }
            self.init(VBucketID(vBucket), Seqno(seqno))
        }

        func append(to writer: ByteWriter) {
            writer.append(leb: vBucket.number)
            writer.append(leb: seqno.value)
        }
    }

    var refusal: String
    var done: [Done]

    init(_ done: [Done], refusal: String = "") {
        self.done = done
        self.refusal = refusal
    }

    init?(_ reader: inout ByteReader) {
        guard let refusal = reader.text(), let done = reader.all(Done.self) else { return nil }
        self.init(done, refusal: refusal)
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: refusal)
        writer.append(all: done)
    }
}
