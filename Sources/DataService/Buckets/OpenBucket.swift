internal import Bytes
package import Engine
package import Vocabulary

/// A bucket in service: its documents in memory, its files, and what moves between them.
///
/// A flush does not empty it: another one takes its place, and this one is retired. Connections
/// look at `isRetired` once for each batch and ask for the bucket anew.
package final class OpenBucket: Sendable {
    package let engine: Bucket
    package let counters: BucketCounters
    /// Nil for an ephemeral bucket.
    let disk: BucketDisk?
    let pager: ItemPager
    private let settingsBox: Guarded<BucketSettings>
    private let retired: SharedWord
    /// Connections that have selected the bucket: a flush hands them on to the next one.
    let selections: Selections

    init(
        _ settings: BucketSettings,
        engine: Bucket,
        disk: BucketDisk?,
        counters: BucketCounters,
        selections: Selections = Selections(),
        service: DocumentService
    ) {
        self.engine = engine
        self.disk = disk
        self.counters = counters
        self.selections = selections
        settingsBox = Guarded(settings)
        pager = ItemPager(
            engine: engine,
            counters: counters,
            service: service,
            hurryFlushers: { disk?.flushAll() },
            noteDirty: { disk?.noteDirty($0) }
        )
        let word = UnsafeMutablePointer<UInt64>.allocate(capacity: 2)
        word.initialize(repeating: 0, count: 2)
        retired = SharedWord(at: word)
        change(settings)
    }

    deinit { retired.address.deallocate() }

    package var name: String { engine.name }

    /// Connections that have this bucket selected.
    package var connections: UInt64 { selections.count }

    package var settings: BucketSettings { settingsBox.withLock { $0 } }

    /// Another bucket has this one's name now, or none.
    @inline(__always)
    package var isRetired: Bool { retired.load() != 0 }

    func retire() {
        retired.store(1)
        pager.stop()
    }

    /// Takes over what can be changed of a bucket in service.
    package func change(_ settings: BucketSettings) {
        settingsBox.withLock { $0 = settings }
        engine.account.quota = settings.quota
        if engine.evictionPolicy != settings.evictionPolicy {
            engine.evictionPolicy = settings.evictionPolicy
        }
        SharedWord(at: retired.address + 1).store(UInt64(settings.maxTTL))
    }

    /// Seconds that documents live at most; 0 for as long as they like.
    @inline(__always)
    var maxTTL: UInt32 {
        UInt32(truncatingIfNeeded: SharedWord(at: retired.address + 1).load())
    }
}
