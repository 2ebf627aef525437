internal import Bytes

/// What a bucket occupies, to the byte of its blocks: documents, tables, checkpoints.
///
/// Every allocation and release of the bucket passes here; nothing is estimated.
package final class MemoryAccount: Sendable {
    private let used: SharedWord
    private let quotaWord: SharedWord
    private let ceilingWord: SharedWord
    private let highWord: SharedWord
    private let checkpointWord: SharedWord
    /// Two threads may change what the ceiling is made of: the words that are read are made under it.
    private let reservedBox = Guarded<UInt64>(0)

    package init(quota: UInt64) {
        let words = UnsafeMutablePointer<UInt64>.allocate(capacity: 8)
        words.initialize(repeating: 0, count: 8)
        used = SharedWord(at: words)
        quotaWord = SharedWord(at: words + 1)
        ceilingWord = SharedWord(at: words + 2)
        highWord = SharedWord(at: words + 3)
        checkpointWord = SharedWord(at: words + 4)
        self.quota = quota
    }

    deinit { used.address.deallocate() }

    /// Bytes: what the administrator granted.
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

    /// Bytes below the ceiling that are kept for one large write that waits for them; 0 for none.
    ///
    /// Smaller writes are refused for now where they would use them.
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

    /// Bytes: what is in use.
    package var bytes: UInt64 { used.load() }

    @inline(__always)
    package func add(_ bytes: Int) { used.add(bytes) }

    /// Bytes of these that change orders hold: entries, and versions only they have.
    package var checkpointBytes: UInt64 { checkpointWord.load() }

    /// Counts bytes for the change orders, which `add` has counted or will count as well.
    @inline(__always)
    func addToCheckpoints(_ bytes: Int) { checkpointWord.add(bytes) }

    /// Slow readers are dropped above this: a fifth of the quota.
    package var checkpointShare: UInt64 { quota / 5 }

    /// Writes are refused for now above this: 93 % of the quota, as Couchbase has it.
    package var ceiling: UInt64 { quota / 100 * 93 }

    /// Pagers rest below this.
    package var lowWatermark: UInt64 { quota / 100 * 75 }

    /// Pagers wake above this.
    package var highWatermark: UInt64 { quota / 100 * 85 }

    /// A pager has work to do.
    @inline(__always)
    package var isAboveHighWatermark: Bool { used.load() > highWord.load() }

    /// What an active copy elsewhere has taken is taken here up to 99 % of the quota: clients of this
    /// node are not to keep its replicas from following.
    @inline(__always)
    package func admitsCopy(_ bytes: Int) -> Bool {
        used.load() &+ UInt64(bytes) <= quotaWord.load() / 100 * 99
    }

    /// Whether a write of so many bytes finds room below the ceiling.
    @inline(__always)
    package func admits(_ bytes: Int) -> Bool { used.load() &+ UInt64(bytes) <= ceilingWord.load() }

    /// The same, also of the bytes that are reserved for a write that needs no more than this one.
    ///
    /// - Parameters:
    ///   - bytes: What is about to be allocated.
    ///   - needed: What the write waits for where it is refused; at least `bytes`.
    /// - Returns: Whether the write may go on.
    @inline(__always)
    func admits(_ bytes: Int, of needed: Int) -> Bool {
        admits(bytes) || admitsReserved(bytes, of: needed)
    }

    @inline(never)
    private func admitsReserved(_ bytes: Int, of needed: Int) -> Bool {
        let free = ceiling - min(ceiling, used.load())
        // Read from the word: the lock must not be acquired under a vBucket's.
        let reserved = ceiling - min(ceiling, ceilingWord.load())
        return reserved > 0 && UInt64(needed) >= reserved && UInt64(bytes) <= free
    }
}
