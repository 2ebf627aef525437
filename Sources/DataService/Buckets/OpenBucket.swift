internal import Bytes
package import Engine
package import Vocabulary

/// A bucket in service: its documents in memory, its files, and the tasks between them.
///
/// A bucket flush does not empty it: another instance replaces it, and this one is retired. A
/// connection checks `isRetired` once per batch and then looks the bucket up again.
package final class OpenBucket: Sendable {
    package let engine: Bucket
    package let counters: TrafficCounters
    /// Nil for an ephemeral bucket.
    package let disk: BucketDisk?
    let pager: ItemPager
    /// The events of its vBuckets and the acknowledgements of their other copies.
    let traffic: ChangeTraffic
    /// Writes to vBuckets in hand over.
    let handOvers: HandOverWaiters
    /// Completes its durable writes.
    let syncWrites: SyncWriteService
    let tapPositions = TapPositions()
    private let assignmentBox = Guarded<BucketAssignment?>(nil)
    private let settingsBox: Guarded<BucketSettings>
    private let retired = SharedWord.allocated(count: 3)
    /// The connections that have the bucket selected; a bucket flush passes them to its successor.
    let selections: Selections

    init(
        _ settings: BucketSettings,
        engine: Bucket,
        disk: BucketDisk?,
        counters: TrafficCounters,
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
        syncWrites = SyncWriteService(
            .init(
                engine: engine,
                disk: disk,
                counters: counters,
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
            markDirty: { disk?.markDirty($0) },
            notifyStreams: { traffic.notify(.changed, of: $0) }
        )
        change(settings)
        // Prepares from before the restart exist once they are loaded.
        disk?.warmup.listen { [weak syncWrites] in syncWrites?.ownershipChanged([$0]) }
    }

    deinit { retired.address.deallocate() }

    package var name: String { engine.name }

    package var uuid: String { engine.uuid }

    /// The newest map; nil if there is none, in which case every vBucket is served.
    package internal(set) var assignment: BucketAssignment? {
        get { assignmentBox.withLock { $0 } }
        set { assignmentBox.withLock { $0 = newValue } }
    }

    /// Connections that have this bucket selected.
    package var connections: UInt64 { selections.count }

    /// Schedules the flush and the replication of a change that was made directly in the engine.
    package func recordChange(_ vBucket: VBucketID) {
        disk?.markDirty(vBucket)
        traffic.notify(.changed, of: vBucket)
    }

    package var settings: BucketSettings { settingsBox.withLock { $0 } }

    /// Whether the bucket was deleted or replaced.
    @inline(__always)
    package var isRetired: Bool { retired.load() != 0 }

    func retire() {
        retired.store(1)
        pager.stop()
        syncWrites.stop()
        traffic.notify(.retired, of: (0..<engine.count).map { VBucketID(UInt16($0)) })
    }

    /// Applies the settings that can change while a bucket is in service.
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

    /// The lowest durability level of writes; nil for none.
    @inline(__always)
    var minimumDurability: DurabilityLevel? {
        let level = SharedWord(at: retired.address + 2).load()
        return level == 0 ? nil : DurabilityLevel(rawValue: UInt8(truncatingIfNeeded: level))
    }

    /// The longest lifetime of documents in seconds; 0 for no limit.
    @inline(__always)
    var maxTTL: UInt32 {
        UInt32(truncatingIfNeeded: SharedWord(at: retired.address + 1).load())
    }
}

extension OpenBucket {
    /// Closes all cursors of feeds, as the pager does when they keep too much memory.
    ///
    /// Their feeds continue from disk, or at another position.
    ///
    /// - Returns: The number of closed cursors.
    package func dropCursors() -> Int {
        var count = 0
        var dropped: [VBucketID] = []
        for vBucket in engine.all {
            let ended = vBucket.withCore { ($0.id, $0.dropCursors()) }
            guard ended.1 > 0 else { continue }
            count += ended.1
            dropped.append(ended.0)
        }
        traffic.notify(.changed, of: dropped)
        return count
    }
}
