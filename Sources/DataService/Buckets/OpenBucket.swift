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
    package let disk: BucketDisk?
    let pager: ItemPager
    /// Those who follow its vBuckets, and those whom it follows.
    let traffic: ChangeTraffic
    /// Writes to vBuckets that another node takes over.
    let handOvers: HandOverWaiters
    /// Where its durable writes wait.
    let desk: DurabilityDesk
    private let assignmentBox = Guarded<BucketAssignment?>(nil)
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
        traffic: ChangeTraffic = ChangeTraffic(),
        service: DocumentService
    ) {
        self.traffic = traffic
        self.engine = engine
        self.disk = disk
        self.counters = counters
        self.selections = selections
        settingsBox = Guarded(settings)
        handOvers = HandOverWaiters(lane: service.lanes.nonIO.lane)
        desk = DurabilityDesk(
            .init(
                engine: engine,
                disk: disk,
                traffic: traffic,
                handOvers: handOvers,
                worker: service.lanes.durability,
                environment: service.environment,
                assignment: { [assignmentBox, unowned service] vBucket in
                    guard let map = assignmentBox.withLock({ $0 }),
                        let own = service.membership.withLock({ $0.own })
                    else { return nil }
                    return (map[vBucket], own)
                }
            )
        )
        pager = ItemPager(
            engine: engine,
            counters: counters,
            service: service,
            hurryFlushers: { disk?.flushAll() },
            noteDirty: { disk?.noteDirty($0) },
            tellStreams: { traffic.tell(.changed, of: $0) }
        )
        let word = UnsafeMutablePointer<UInt64>.allocate(capacity: 3)
        word.initialize(repeating: 0, count: 3)
        retired = SharedWord(at: word)
        change(settings)
        // What was prepared in a life before is there once it is loaded.
        disk?.warmup.listen { [weak desk] in desk?.ownershipChanged([$0]) }
    }

    deinit { retired.address.deallocate() }

    package var name: String { engine.name }

    package var uuid: String { engine.uuid }

    /// What the map last said; nil where none ever did, and every vBucket is served.
    package internal(set) var assignment: BucketAssignment? {
        get { assignmentBox.withLock { $0 } }
        set { assignmentBox.withLock { $0 = newValue } }
    }

    /// Connections that have this bucket selected.
    package var connections: UInt64 { selections.count }

    /// Tells the flusher, and those who send streams, of a change that was made by hand.
    package func noteChanged(_ vBucket: VBucketID) {
        disk?.noteDirty(vBucket)
        traffic.tell(.changed, of: vBucket)
    }

    package var settings: BucketSettings { settingsBox.withLock { $0 } }

    /// Another bucket has this one's name now, or none.
    @inline(__always)
    package var isRetired: Bool { retired.load() != 0 }

    func retire() {
        retired.store(1)
        pager.stop()
        desk.stop()
        traffic.tell(.retired, of: (0..<engine.count).map { VBucketID(UInt16($0)) })
    }

    /// Takes over what can be changed of a bucket in service.
    package func change(_ settings: BucketSettings) {
        settingsBox.withLock { $0 = settings }
        engine.account.quota = settings.quota
        if engine.evictionPolicy != settings.evictionPolicy {
            engine.evictionPolicy = settings.evictionPolicy
        }
        SharedWord(at: retired.address + 1).store(UInt64(settings.maxTTL))
        let level = settings.minimumDurability?.rawValue ?? 0
        SharedWord(at: retired.address + 2).store(UInt64(level))
    }

    /// What every write is lifted to.
    @inline(__always)
    var minimumDurability: DurabilityLevel? {
        let level = SharedWord(at: retired.address + 2).load()
        return level == 0 ? nil : DurabilityLevel(rawValue: UInt8(truncatingIfNeeded: level))
    }

    /// Seconds that documents live at most; 0 for as long as they like.
    @inline(__always)
    var maxTTL: UInt32 {
        UInt32(truncatingIfNeeded: SharedWord(at: retired.address + 1).load())
    }
}

extension OpenBucket {
    /// Ends what readers of changes hold in memory, as the pager does with those that hold too much.
    ///
    /// They go on from disk, or find another place.
    ///
    /// - Returns: How many there were.
    package func dropCursors() -> Int {
        var count = 0
        var dropped: [VBucketID] = []
        for vBucket in engine.all {
            let ended = vBucket.withCore { ($0.id, $0.dropCursors()) }
            guard ended.1 > 0 else { continue }
            count += ended.1
            dropped.append(ended.0)
        }
        traffic.tell(.changed, of: dropped)
        return count
    }
}
