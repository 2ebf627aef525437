internal import Bytes

/// A bucket's memory use, exact to the byte of its blocks: documents, tables, checkpoints.
///
/// Every allocation and release of the bucket is counted here; nothing is estimated.
package final class MemoryAccount: Sendable {
    private let used: SharedWord
    private let quotaWord: SharedWord
    private let ceilingWord: SharedWord
    private let highWord: SharedWord
    private let checkpointWord: SharedWord
    /// The reserved bytes.
    ///
    /// The lock serializes changes of quota and reservation, from which `ceilingWord` and `highWord`
    /// are computed.
    private let reservedBox = Guarded<UInt64>(0)

    package init(quota: UInt64) {
        used = SharedWord.allocated(count: 8)
        let words = used.address
        quotaWord = SharedWord(at: words + 1)
        ceilingWord = SharedWord(at: words + 2)
        highWord = SharedWord(at: words + 3)
        checkpointWord = SharedWord(at: words + 4)
        self.quota = quota
    }

    deinit { used.address.deallocate() }

    /// The bytes that the administrator granted.
    package var quota: UInt64 {
        get { quotaWord.load() }
        set {
            reservedBox.withLock { reserved in
                quotaWord.store(newValue)
                ceilingWord.store(ceiling - min(ceiling, reserved))
                highWord.store(highWatermark)
            }
        }
    }

    /// Bytes below the ceiling that are reserved for one large waiting write; 0 for none.
    ///
    /// Smaller writes that would use these bytes get a temporary failure.
    package var reserved: UInt64 {
        get { reservedBox.withLock { $0 } }
        set {
            reservedBox.withLock { reserved in
                guard reserved != newValue else { return }
                reserved = newValue
                ceilingWord.store(ceiling - min(ceiling, newValue))
            }
        }
    }

    /// The bytes in use.
    package var bytes: UInt64 { used.load() }

    @inline(__always)
    package func add(_ bytes: Int) { used.add(bytes) }

    /// The part of `bytes` that checkpoints hold: entries, and owned versions.
    package var checkpointBytes: UInt64 { checkpointWord.load() }

    /// Counts bytes of checkpoints; the caller counts them with `add` as well.
    @inline(__always)
    func addToCheckpoints(_ bytes: Int) { checkpointWord.add(bytes) }

    /// The bytes of checkpoints above which slow cursors are dropped: a fifth of the quota.
    package var checkpointShare: UInt64 { quota / 5 }

    /// The bytes in use above which writes get a temporary failure: 93 % of the quota, as in
    /// Couchbase.
    package var ceiling: UInt64 { quota / 100 * 93 }

    /// The bytes in use at which the item pager stops.
    package var lowWatermark: UInt64 { quota / 100 * 75 }

    /// The bytes in use at which the item pager starts.
    package var highWatermark: UInt64 { quota / 100 * 85 }

    /// Whether the item pager has to run.
    @inline(__always)
    package var isAboveHighWatermark: Bool { used.load() > highWord.load() }

    /// Whether a replica may store a change of this many bytes, or a deletion keep attributes of
    /// them: up to 99 % of the quota.
    ///
    /// The limit is above the ceiling, so that clients' writes on this node do not stop
    /// replication.
    @inline(__always)
    package func admitsCopy(_ bytes: Int) -> Bool {
        used.load() &+ UInt64(bytes) <= quotaWord.load() / 100 * 99
    }

    /// Whether a write of this many bytes fits below the ceiling.
    @inline(__always)
    package func admits(_ bytes: Int) -> Bool { used.load() &+ UInt64(bytes) <= ceilingWord.load() }

    /// The same; a write that needs at least the reserved bytes may use the reservation.
    ///
    /// - Parameters:
    ///   - bytes: The bytes that the write allocates.
    ///   - needed: The bytes that the write would wait for; at least `bytes`.
    /// - Returns: Whether the write may allocate.
    @inline(__always)
    func admits(_ bytes: Int, of needed: Int) -> Bool {
        admits(bytes) || admitsReserved(bytes, of: needed)
    }

    @inline(never)
    private func admitsReserved(_ bytes: Int, of needed: Int) -> Bool {
        let free = ceiling - min(ceiling, used.load())
        // Derived from `ceilingWord`: no second lock may be acquired under a vBucket's lock.
        let reserved = ceiling - min(ceiling, ceilingWord.load())
        return reserved > 0 && UInt64(needed) >= reserved && UInt64(bytes) <= free
    }
}
