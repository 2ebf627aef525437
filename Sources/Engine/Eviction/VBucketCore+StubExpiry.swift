package import Bytes
package import Vocabulary

/// The earliest expiry of all documents that are stubs in memory, and of expired documents whose
/// attributes are on disk only.
///
/// A stub has no room for an expiry, so the vBucket keeps one time for all stubs. It may be too
/// early, as filling a stub does not recompute it; it is never too late.
struct StubExpiry {
    /// Absolute seconds; `.max` if no stub has an expiry.
    private(set) var earliest: UInt32 = .max
    /// How often the table was emptied.
    ///
    /// Seqnos restart then, so versions that were read from disk before do not match later stubs.
    private(set) var emptyings: UInt64 = 0

    mutating func note(_ expiry: UInt32) { earliest = min(earliest, expiry) }

    /// Returns the time and resets it, before a scan that determines it anew.
    mutating func take() -> UInt32 { exchange(&earliest, with: .max) }

    mutating func noteEmptied() {
        earliest = .max
        emptyings += 1
    }
}

/// A scan of a vBucket's versions on disk for stubs whose documents have expired.
package struct StubScan: Sendable {
    /// The high seqno at the start.
    ///
    /// Later stubs update `StubExpiry` when they are made.
    package let last: Seqno
    fileprivate let earliest: UInt32
    fileprivate let emptyings: UInt64
}

/// The result of a scan for a version on disk.
package enum StubExpiration: Hashable, Sendable {
    /// The document expired; then the flusher and streams have to be woken.
    case expired
    /// The document expired, and its tombstone keeps attributes: `expireStub` needs the value.
    case needsValue
    /// The version is old, in memory, or expires later.
    case kept
}

/// Expires documents without an access of which the disk has what memory lacks: fully ejected ones,
/// and ones with extended attributes whose value is ejected.
///
/// Works on the active copy only, as `expireSlice`: replicas receive the tombstones.
extension VBucketCore {
    private var mayExpire: Bool { state == .active && isWritable }

    /// Whether a stub may have expired, so that a scan of the disk is needed.
    package func mayHaveDueStubs(_ turn: borrowing ExecutionContext) -> Bool {
        mayExpire && stubExpiry.earliest <= turn.seconds
    }

    /// Begins a scan of the disk; nil if no stub has expired.
    ///
    /// The caller passes every version up to `last` to `expireStub`, or calls `abandon`.
    package mutating func beginStubScan(_ turn: borrowing ExecutionContext) -> StubScan? {
        guard mayHaveDueStubs(turn) else { return nil }
        return StubScan(
            last: persistedSeqno,
            earliest: stubExpiry.take(),
            emptyings: stubExpiry.emptyings
        )
    }

    /// Whether the versions that `scan` reads still belong to this copy, and may be expired by it.
    package func isUnderWay(_ scan: StubScan) -> Bool {
        mayExpire && stubExpiry.emptyings == scan.emptyings
    }

    /// Ends a scan early: restores its expiry time, so that the next scan is due at once.
    package mutating func abandon(_ scan: StubScan) {
        if stubExpiry.emptyings == scan.emptyings { stubExpiry.note(scan.earliest) }
    }

    /// Replaces a document by a tombstone if this version is a stub's and has expired, or is the
    /// version of an expired document whose attributes memory does not have.
    ///
    /// If a stub's version expires later, or its key has a prepare, its expiry is recorded for the
    /// next scan. Called only during a scan.
    ///
    /// - Parameters:
    ///   - meta: A version, as it is on disk; may be an old one.
    ///   - key: Its key.
    ///   - valueCount: The length of its value.
    ///   - value: Its value; nil if it was not read.
    ///   - turn: The time and the arena of the caller.
    /// - Returns: What became of the document.
    package mutating func expireStub(
        _ meta: DocumentMeta,
        key: ByteView,
        valueCount: Int,
        value: ByteView? = nil,
        _ turn: borrowing ExecutionContext
    ) -> StubExpiration {
        guard !meta.isDeleted, meta.expiry != 0 else { return .kept }
        let hash = table.hash(key)
        let resident = table.find(key, hash: hash)?.item
        if let resident {
            guard resident.seqno == meta.seqno, awaitsAttributes(resident) else { return .kept }
        } else {
            let stub = table.findStub(hash) { $0.seqno == meta.seqno.value && !$0.isDeleted }
            guard stub != nil else { return .kept }
        }
        guard meta.expiry <= turn.seconds, prepares.find(key, hash) == nil else {
            if resident == nil { stubExpiry.note(meta.expiry) }
            return .kept
        }
        // Without attributes the tombstone has no value, so the document's value is not needed.
        if meta.datatype.contains(.xattr), value == nil { return .needsValue }
        let isHere =
            if resident != nil, let value {
                install(value, of: meta.seqno, key: key, hash: hash, turn)
            } else {
                restore(meta, key: key, valueCount: valueCount, value: value, turn)
            }
        guard isHere, let place = table.find(key, hash: hash), expire(place, turn) else {
            return .kept
        }
        return .expired
    }
}
