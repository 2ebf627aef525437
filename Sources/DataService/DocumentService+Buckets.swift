internal import Bytes
internal import Engine
package import Persistence
internal import Seams
package import Vocabulary
internal import Wire

extension DocumentService {
    var bucketsDirectory: String { dataDirectory + "/buckets" }

    func directory(of name: String) -> String { bucketsDirectory + "/" + name }

    package func newUUID() -> VBucketUUID {
        var value = environment.entropy.next()
        while value == 0 { value = environment.entropy.next() }
        return VBucketUUID(value)
    }

    private func makeEngine(_ settings: BucketSettings, _ map: Map?) -> Bucket {
        let engine = Bucket(settings, hash: hash, reclaimer: reclaimer, newUUID: newUUID)
        if map != nil {
            for vBucket in engine.all { vBucket.withCore { $0.beAbsent() } }
        }
        return engine
    }

    // MARK: Opening

    /// The map with which a bucket is opened.
    struct Map {
        let assignment: BucketAssignment
        let own: NodeNumber
        /// This map created the bucket.
        let isNew: Bool
        var isCurrent = false
        var seals: [(vBucket: VBucketID, fence: UInt64)] = []
    }

    /// Opens a bucket whose copies on this node are those of the map.
    ///
    /// - Parameters:
    ///   - settings: The bucket's settings.
    ///   - assignment: The map.
    ///   - own: This node.
    ///   - isNew: The map has just created the bucket: the active copies are created. Otherwise a
    ///     missing copy was lost, and waits for `activate`.
    ///   - isCurrent: Every existing bucket is known, so that files of this name with another UUID
    ///     belong to a deleted one.
    ///   - seals: The seals from before the restart.
    /// - Throws: `StorageError` if the bucket is unusable.
    package func open(
        _ settings: BucketSettings,
        _ assignment: BucketAssignment,
        as own: NodeNumber,
        isNew: Bool,
        isCurrent: Bool = false,
        seals: [(vBucket: VBucketID, fence: UInt64)] = []
    ) throws(StorageError) {
        membership.withLock { $0.own = own }
        var map = Map(assignment: assignment, own: own, isNew: isNew)
        (map.isCurrent, map.seals) = (isCurrent, seals)
        try open(settings, map)
        links?.applyMap(assignment, own: own)
        notifyMapListeners()
    }

    /// Opens a bucket, creating its files if there are none; warmup continues in the background.
    ///
    /// Every vBucket is served, as on a node without a cluster.
    ///
    /// - Throws: `StorageError` if the bucket is unusable.
    package func open(_ settings: BucketSettings) throws(StorageError) {
        try open(settings, nil)
    }

    private func open(_ settings: BucketSettings, _ map: Map?) throws(StorageError) {
        administration.acquire()
        defer { administration.release() }
        precondition(bucket(named: settings.name) == nil, "a bucket is opened once")
        givenUp.withLock { _ = $0.remove(settings.name) }
        guard settings.type == .persistent else {
            return enterWithoutDisk(settings, map)
        }
        try makeRoom(for: settings, isCurrent: map?.isCurrent ?? false)
        var layout = StoreSettings()
        layout.vBuckets = settings.vBuckets
        let store = try BucketStore.open(
            disk: environment.disk,
            directory: directory(of: settings.name),
            name: settings.name,
            uuid: settings.uuid,
            settings: layout,
            now: environment.time.wallNanoseconds() / 1_000_000_000
        )
        try serve(settings, from: store, map: map)
    }

    private func enterWithoutDisk(
        _ settings: BucketSettings,
        _ map: Map?,
        selections: Selections = Selections()
    ) {
        let bucket = OpenBucket(
            settings,
            engine: makeEngine(settings, map),
            disk: nil,
            counters: TrafficCounters(rows: contexts.count + 1),
            selections: selections,
            service: self
        )
        enter(bucket, map)
    }

    /// Opens a bucket after the map was applied to its copies.
    private func enter(_ bucket: OpenBucket, _ map: Map?) {
        if let map {
            applyMap(map.assignment, on: bucket, as: map.own, isNew: map.isNew)
            // Before the bucket is reachable: the seals hold.
            for (id, fence) in map.seals {
                bucket.engine[id.number]?.withCore { core in
                    if core.ownership.fence == fence { core.seal() }
                }
            }
            if !map.isNew { serveAlone(bucket, map) }
        }
        enter(bucket)
    }

    /// Activates the vBuckets of which this node has the only copy: no other copy can be consulted.
    ///
    /// Acknowledged changes that were not persisted are lost: clients detect it by the new vBucket
    /// UUID.
    private func serveAlone(_ bucket: OpenBucket, _ map: Map) {
        for vBucket in bucket.engine.all {
            vBucket.withCore { core in
                let entry = map.assignment[core.id]
                guard entry.chain == [map.own], entry.isConfirmed, entry.nextChain.isEmpty,
                    entry.former == nil, core.state == .pending, !core.ownership.isSealed,
                    !core.ownership.isResetting
                else { return }
                core.beginServing(newUUID(), fence: entry.fence, isConfirmed: true)
            }
        }
    }

    /// Opens a bucket with the contents of `store`.
    private func serve(
        _ settings: BucketSettings,
        from store: BucketStore,
        map: Map?,
        selections: Selections = Selections()
    ) throws(StorageError) {
        var (records, unclean) = try store.records()
        try store.markRunning()
        let engine = makeEngine(settings, map)
        let lost = lost(engine, store)
        records += lost
        var changed: [VBucketID] = []
        for record in records {
            guard let vBucket = engine[record.id.number] else { continue }
            let isUnclean = unclean.contains(Int(record.id.number) % store.settings.lanes)
            vBucket.withCore { core in
                core.beginWarmup(record)
                guard map == nil else { return core.beFound(record, wasClean: !isUnclean) }
                // Acknowledged changes that were not persisted are lost: clients detect it by the
                // new UUID.
                if isUnclean { core.beginHistory(newUUID()) }
            }
            if isUnclean { changed.append(record.id) }
        }
        if map != nil {
            for record in lost {
                engine[record.id.number]?.withCore { $0.beFound(record, wasClean: false) }
            }
        }
        let traffic = ChangeTraffic()
        let counters = TrafficCounters(rows: contexts.count + 1)
        let disk = BucketDisk(
            engine: engine,
            store: store,
            records: records,
            counters: counters,
            traffic: traffic,
            service: self
        )
        for closed in store.lanes.compactMap(\.closedBy) {
            environment.trace.error("storage", bucket: settings.name, closed.description)
            alerts.raise("lane/\(settings.name)/\(closed.description)", closed.description)
        }
        enter(
            OpenBucket(
                settings,
                engine: engine,
                disk: disk,
                counters: counters,
                selections: selections,
                traffic: traffic,
                service: self
            ),
            map
        )
        for id in changed { disk.markDirty(id) }
        disk.warmup.start()
    }

    /// Records for the vBuckets of unusable files.
    ///
    /// They stay unloaded, so that requests are refused for now instead of finding empty vBuckets.
    private func lost(_ engine: Bucket, _ store: BucketStore) -> [VBucketRecord] {
        let closed = store.lanes.filter { $0.closedBy != nil }
        guard !closed.isEmpty else { return [] }
        return (0..<engine.count).map { VBucketID(UInt16($0)) }
            .filter { id in closed.contains { $0.owns(id) } }
            .map { id in
                VBucketRecord(
                    id: id,
                    state: .active,
                    failoverLog: FailoverLog(first: newUUID())
                )
            }
    }

    // MARK: Bucket flush

    /// Empties a bucket: an empty one replaces it at once, the old one is freed in the background.
    ///
    /// - Throws: `StorageError` if there is no such bucket, or its files cannot be put aside.
    package func flush(_ name: String) throws(StorageError) {
        administration.acquire()
        defer { administration.release() }
        guard let old = bucket(named: name) else {
            throw StorageError(.missing, "There is no bucket \(name)")
        }
        let settings = old.settings
        // The copies keep their states, and are empty.
        let own = membership.withLock { $0.own }
        let map: Map? = old.assignment.flatMap { assignment in
            own.map { Map(assignment: assignment, own: $0, isNew: true) }
        }
        if let disk = old.disk {
            // In this order: if the files cannot be put aside, the bucket stays as it was.
            try disk.store.flush()
            disk.stop()
            try serve(settings, from: disk.store, map: map, selections: old.selections)
            let store = disk.store
            afterLanes { [environment] in
                environment.tracingErrors { () throws(StorageError) in
                    try store.removeLeftovers()
                }
            }
        } else {
            enterWithoutDisk(settings, map, selections: old.selections)
        }
        tearDown(old)
    }

    /// Flushes a bucket for a client that waits on its reactor.
    func flushInBackground(_ name: String, _ done: @escaping @Sendable (Completion) -> Void) {
        lanes.nonIO.lane.post { [self] in
            do throws(StorageError) {
                try flush(name)
                done(.done)
            } catch {
                done(.failed(.internalError, error.description))
            }
        }
    }

    /// Runs `work` on the nonIO lane after all lanes have finished their current work, which may
    /// still use a retired bucket's items and files.
    func afterLanes(_ work: @escaping @Sendable () -> Void) {
        let single = [lanes.auxIO, lanes.nonIO, lanes.durability]
        afterLanes((lanes.writers + lanes.readers + single)[...], work)
    }

    private func afterLanes(
        _ workers: ArraySlice<DataLanes.Worker>,
        _ work: @escaping @Sendable () -> Void
    ) {
        guard let next = workers.first else { return work() }
        next.lane.post { [self] in afterLanes(workers.dropFirst(), work) }
    }

    /// Frees the memory of a bucket that is no longer reachable, a few vBuckets at a time.
    func tearDown(_ bucket: OpenBucket) {
        let engine = bucket.engine
        for kind in ["flush", "stall", "warmup", "lane"] {
            alerts.clear(prefix: "\(kind)/\(bucket.name)/")
        }
        afterLanes { [self] in tearDown(engine, from: 0) }
    }

    private func tearDown(_ engine: Bucket, from number: Int) {
        lanes.nonIO.lane.post { [self] in
            let end = min(number + 32, engine.count)
            for vBucket in engine.all[number..<end] { vBucket.withCore { $0.end() } }
            if end < engine.count { tearDown(engine, from: end) }
        }
    }
}

extension DocumentService {
    /// Compacts a bucket's files as far as possible, in the background.
    ///
    /// - Returns: Whether that has begun: false without such a bucket, and while it is loaded. A
    ///   bucket without files is compact.
    package func compact(_ name: String) -> Bool {
        guard let bucket = bucket(named: name) else { return false }
        return bucket.disk?.compact() ?? true
    }

    /// Ends the requested compaction of a bucket's files between two of its steps.
    ///
    /// No effect if none runs.
    package func cancelCompaction(ofBucket name: String) {
        bucket(named: name)?.disk?.cancelCompaction()
    }

    /// How far the requested compaction of a bucket's files is; nil if none runs.
    package func compaction(ofBucket name: String) -> CompactionWork? {
        bucket(named: name)?.disk?.compaction
    }

    /// Purges a bucket's tombstones of any age, in the background: those that are persisted and that
    /// every connected reader of changes has read.
    ///
    /// - Returns: False if the bucket is not open here, or its warmup has not ended.
    package func purgeTombstones(of name: String) -> Bool {
        guard let bucket = bucket(named: name), bucket.failure == nil else { return false }
        if let disk = bucket.disk { return disk.purgeAll() }
        TombstonePager(service: self).purgeAll(bucket)
        return true
    }
}
