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
            quotaWord.store(newValue)
            ceilingWord.store(newValue / 100 * 93)
            highWord.store(highWatermark)
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

    /// Writes are refused for now above this: 93 % of the quota, as Couchbase has it.
    @inline(__always)
    package func admits(_ bytes: Int) -> Bool { used.load() &+ UInt64(bytes) <= ceilingWord.load() }
}
