package import Bytes
package import Vocabulary

/// When the first of the documents is due of which memory keeps only stubs.
///
/// Eight bytes have no room for an expiry, so the vBucket keeps one for all of them. It may be too
/// early, as filling a stub does not recompute it; it is never too late.
struct StubExpiry {
    /// Absolute seconds; `.max` where no stub has an expiry.
    private(set) var earliest: UInt32 = .max
    /// How often the table was emptied.
    ///
    /// Seqnos begin anew then: what was read from disk before says nothing of stubs that come after.
    private(set) var emptyings: UInt64 = 0

    mutating func note(_ expiry: UInt32) { earliest = min(earliest, expiry) }

    /// Returns the time and resets it, before a scan that determines it anew.
    mutating func take() -> UInt32 {
        defer { earliest = .max }
        return earliest
    }

    mutating func noteEmptied() {
        earliest = .max
        emptyings += 1
    }
}

/// A look through what the disk has of a vBucket, for stubs whose time has come.
package struct StubScan: Sendable {
    /// Stubs that were there at the beginning are at or below this; later ones note themselves.
    package let last: Seqno
    fileprivate let earliest: UInt32
    fileprivate let emptyings: UInt64
}

/// Expires fully ejected documents without an access.
///
/// Only on the active copy, as `expireSlice`: replicas receive the tombstones.
extension VBucketCore {
    private var mayExpire: Bool { state == .active && isWritable }

    /// Whether a look at the disk is worth its reads.
    package func mayHaveDueStubs(_ turn: borrowing ExecutionContext) -> Bool {
        mayExpire && stubExpiry.earliest <= turn.seconds
    }

    /// Begins a look at the disk; nil where nothing is due.
    ///
    /// Every version up to `last` is to be shown to `expireStub`, or the scan to be abandoned.
    package mutating func beginStubScan(_ turn: borrowing ExecutionContext) -> StubScan? {
        guard mayHaveDueStubs(turn) else { return nil }
        return StubScan(
            last: persistedSeqno,
            earliest: stubExpiry.take(),
            emptyings: stubExpiry.emptyings
        )
    }

    /// Whether what `scan` reads still is this copy's, and may expire here.
    package func isUnderWay(_ scan: StubScan) -> Bool {
        mayExpire && stubExpiry.emptyings == scan.emptyings
    }

    /// The scan does not come to its end: the next one is as urgent as this one was.
    package mutating func abandon(_ scan: StubScan) {
        if stubExpiry.emptyings == scan.emptyings { stubExpiry.note(scan.earliest) }
    }

    /// Turns a document into a tombstone if this version is a stub's and its time has come.
    ///
    /// One that is due later, or has a prepare, is noted for the next scan. Only while a scan is
    /// under way.
    ///
    /// - Parameters:
    ///   - meta: A version, as it is on disk; may be an old one.
    ///   - key: Its key.
    ///   - valueCount: The length of its value.
    ///   - turn: The caller's.
    /// - Returns: Whether it expired; the flusher and streams are owed a wake then.
    package mutating func expireStub(
        _ meta: DocumentMeta,
        key: ByteView,
        valueCount: Int,
        _ turn: borrowing ExecutionContext
    ) -> Bool {
        guard !meta.isDeleted, meta.expiry != 0 else { return false }
        let hash = table.hash(key)
        let stub = table.findStub(hash) { $0.seqno == meta.seqno.value && !$0.isDeleted }
        guard stub != nil else { return false }
        guard meta.expiry <= turn.seconds, prepares.find(key, hash) == nil else {
            stubExpiry.note(meta.expiry)
            return false
        }
        // Its value stays on disk: a tombstone has none.
        guard restore(meta, key: key, valueCount: valueCount, value: nil, turn),
            let place = table.find(key, hash: hash)
        else { return false }
        expire(place, turn)
        return true
    }
}
