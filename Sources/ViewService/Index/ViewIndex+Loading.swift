internal import Bytes
internal import Indexing
internal import Persistence
internal import ScriptProcesses
internal import Seams
internal import Vocabulary

/// The first build: mapped documents go into sorted runs, and the trees are made of these at the end.
///
/// Until then, no vBucket is complete, and commits store runs only. Trees are made in steps of bounded
/// work, each a commit; the last one stores the roots, the positions and the row counts.
extension ViewIndex {
    /// Whether mapped documents go into runs.
    var isCollecting: Bool { progress.load?.isCollecting ?? false }

    // MARK: Collecting

    /// Adds the rows of a mapped batch.
    func collect(_ reading: Reading, _ results: ScriptResults) {
        guard let load = progress.load?.runs else { return }
        let rows = EmittedRows(results)
        let sortKey = ByteWriter()
        let now = now
        let collation = dependencies.collations.acquire()
        defer { dependencies.collations.release(collation) }
        // Most changes of a batch are of the same vBucket as the one before.
        var last: (vBucket: VBucketID, isCurrent: Bool)?
        for change in reading.batch.changes {
            if last?.vBucket != change.vBucket {
                last = (change.vBucket, isCurrent(change.vBucket, in: reading))
            }
            guard last?.isCurrent == true else { continue }
            let id = reading.batch.id(of: change)
            load.begin(change.vBucket, id: id, now: now)
            if let item = change.item {
                let isWhole = rows.encode(Int(item), collation, into: sortKey) { key, value in
                    load.add(sortKey: key, value: value)
                }
                if !isWhole {
                    // A document has all of its rows or none.
                    load.discardRows()
                    refuse(id, ViewIndex.keyTooLong)
                }
            }
            load.end()
        }
        for (vBucket, position) in reading.batch.positions
        where isCurrent(vBucket, in: reading) {
            load.move(vBucket, to: position, now: now)
            progress.table.loaded(vBucket, through: position.seqno)
        }
        load.endBatch(now: now)
    }

    /// Stores a run if that is due, and ends the load if everything is read.
    func advanceLoad() {
        guard let load = progress.load?.runs, !alarm.checkpoints.holdsCommits else { return }
        let now = now
        guard now >= alarm.pausedUntil else { return }
        if let run = load.runToStore(now: now) {
            do throws(StorageError) {
                try store(run, of: load)
            } catch {
                return handle(error)
            }
            checkpointIfLarge()
            // The next one in another turn: each takes some milliseconds.
            return wakeSelf()
        }
        guard isLoadOver(load, now) else { return }
        guard !load.isEmpty else {
            progress.load = nil
            return
        }
        beginMerge(load)
    }

    private func store(_ run: SortedRun, of load: BulkLoad) throws(StorageError) {
        let positions = load.positions(after: run)
        try file.commit { (transaction) throws(StorageError) in
            try transaction.store(run, number: load.storedRuns, positions)
        }
        load.stored()
        countRefused()
        for (vBucket, position) in run.positions { progress.table.kept(vBucket, position) }
    }

    private func isLoadOver(_ load: BulkLoad, _ now: UInt64) -> Bool {
        // The nodes that a compaction left are removed first.
        guard !isDiscarding else { return false }
        if !pending.removals.isEmpty || load.isFull { return true }
        // While much is being mapped, much is missing.
        if pending.queue.count < ViewIndex.loadBatchesMax,
            progress.table.isComplete(with: load.positions)
        {
            return true
        }
        return mayEndIdle(load) && now >= load.idleAt
    }

    private var isDiscarding: Bool { progress.compaction != nil }

    /// Whether the load ends once nothing has come for a while.
    private func mayEndIdle(_ load: BulkLoad) -> Bool {
        guard pending.queue.count == 0, !awaitsBuild else { return false }
        return !load.isEmpty || !pending.completions.isEmpty
    }

    /// When the load has something to do without an event.
    var loadDueAt: UInt64 {
        guard let load = progress.load?.runs, !alarm.checkpoints.holdsCommits else { return .max }
        let idleAt = mayEndIdle(load) && !isDiscarding ? load.idleAt : .max
        return min(idleAt, load.storeAt ?? .max)
    }

    // MARK: Merging

    private func beginMerge(_ load: BulkLoad) {
        do throws(StorageError) {
            progress.load?.merge = load.merge(try file.head().numbers)
        } catch {
            return fail(error)
        }
        // A feed that is opened from now on continues behind what the trees will have.
        for (vBucket, position) in load.positions { progress.table.kept(vBucket, position) }
        stepLoad()
    }

    func stepLoad() {
        guard let merge = progress.load?.merge else { return }
        do throws(StorageError) {
            try step(merge)
        } catch {
            handle(error)
        }
        checkpointIfLarge()
        post(.load)
    }

    /// Computes the next nodes, unless those of the last step are not stored yet, and stores them.
    private func step(_ merge: LoadMerge) throws(StorageError) {
        if progress.load?.values == nil {
            let values = try compute(merge)
            progress.load?.values = values
        }
        let values = progress.load?.values ?? []
        guard merge.isComplete else {
            try file.commit { (transaction) throws(StorageError) in
                // A crash leaves the nodes of a copy that was not completed.
                try transaction.write(.copy)
                try transaction.store(merge.writes, values)
            }
            merge.writes.removeAll()
            progress.load?.values = nil
            return
        }
        try finish(merge, values)
    }

    private func compute(
        _ merge: LoadMerge
    ) throws(StorageError) -> [(id: IndexValueID, body: [UInt8])] {
        var values: [(id: IndexValueID, body: [UInt8])] = []
        let bytesMax = dependencies.loadLimits.mergedBytesMax
        try file.readNewest { (reads) throws(StorageError) in
            try reading { () throws(IndexError) in
                // Two, so that a small index is one commit: its documents, then its rows.
                for _ in 0..<2 {
                    try merge.step(
                        bytesMax: bytesMax,
                        read: { (chunk, output) throws(IndexError) in
                            try reads.chunk(chunk, into: output)
                        },
                        storeValue: { values.append(($0, $1.bytes)) }
                    )
                }
            }
        }
        return values
    }

    /// Stores the last nodes, and makes the trees those of the index.
    private func finish(
        _ merge: LoadMerge,
        _ values: [(id: IndexValueID, body: [UInt8])]
    ) throws(StorageError) {
        guard let load = progress.load?.runs else { return }
        let vBuckets = Set(load.positions.keys).union(merge.rowCounts.keys)
            .union(pending.completions)
        try file.commit { (transaction) throws(StorageError) in
            try transaction.store(merge.writes, values)
            transaction.head.main = IndexRoot(merge.rows)
            transaction.head.back = IndexRoot(merge.documents)
            transaction.head.numbers = merge.numbers
            transaction.head.state = .ready
            try transaction.write(nil)
            for id in vBuckets.sorted() where progress.table.home(of: id) != .none {
                var row = IndexVBucket(id)
                row.rows = merge.rowCounts[id] ?? 0
                let position = progress.table.position(of: id)
                row.home = progress.table.homeAfterCommit(of: id, at: position)
                row.position = position
                try transaction.write(row)
            }
        }
        progress.load = nil
        pending.completions = []
        countRefused()
        // The trees have no results yet: until these are filled in, queries read rows.
        for slot in progress.slots.numeric { missed(slot) }
        for id in vBuckets { progress.table.committed(id, progress.table.position(of: id)) }
        if load.storedRuns > 0 { removeOldRuns() }
        endWaits(Array(vBuckets))
        wakeSelf()
    }
}
