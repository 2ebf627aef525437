internal import Bytes
internal import Indexing
internal import Persistence
internal import ScriptProcesses
internal import Seams
internal import Vocabulary

/// Storing mapped changes, and removing rows.
extension ViewIndex {
    /// Rows that one commit removes at most, so that readers and the write-ahead log stay small.
    private static let removedRowsMax = 5_000
    /// For the author of a function.
    static let keyTooLong = "The encoded key is longer than 16 KiB."

    /// The newest version of each changed document, and how far each vBucket has come.
    private struct Changes {
        struct Document {
            let reading: Int
            let change: ChangeBatch.Change
        }

        var documents: [Document] = []
        var positions: [VBucketID: IndexPosition] = [:]
    }

    /// Commits everything that is mapped, and a part of the rows to remove.
    func commit() {
        let began = now
        var changes = collect()
        // Changes that were read are not committed yet: such a vBucket is complete at its committed position.
        for vBucket in pending.completions where changes.positions[vBucket] == nil {
            changes.positions[vBucket] = progress.table.position(of: vBucket)
        }
        let removal = pending.removals.first
        guard !changes.positions.isEmpty || removal != nil else { return forget() }
        let isRemoved: Bool
        do throws(StorageError) {
            isRemoved = try store(changes, removal)
        } catch {
            return handle(error)
        }
        countRefused()
        forget()
        progress.trigger.committed(costNanoseconds: now - began)
        for (vBucket, position) in changes.positions { progress.table.committed(vBucket, position) }
        var moved = Array(changes.positions.keys)
        if isRemoved, let removal {
            pending.removals.removeFirst()
            perform(progress.table.removed(removal))
            moved.append(removal)
        }
        endWaits(moved)
        checkpointIfLarge()
        // More rows may be waiting to be removed, and more changes to be read.
        wakeSelf()
    }

    /// Whether a commit of what has been read can end a wait.
    ///
    /// Small commits of a build end no wait, and delay the end of all.
    var isAnyWaitEndable: Bool {
        let table = progress.table
        return progress.waiters.isAnyEndable { vBucket in
            guard table.home(of: vBucket) != .main else { return false }
            let position = sources.feeds[vBucket]?.read.position ?? .zero
            return table.homeAfterCommit(of: vBucket, at: position) != .main
        }
    }

    func wakeSelf() {
        dependencies.lane.post { [weak self] in self?.advance() }
    }

    private func forget() {
        pending.mapped = []
        pending.completions = []
        progress.trigger.discard()
    }

    /// A full disk passes, so that the same changes are committed later; any other error does not.
    func handle(_ error: StorageError) {
        guard error.code == .full || error.code == .busy else { return fail(error) }
        dependencies.environment.trace.error(
            "views",
            "Index \(name): \(error.description). It retries every second."
        )
        alarm.pausedUntil = now + ViewIndex.diskPauseNanoseconds
    }

    /// The changes of all mapped batches, without those of feeds that were closed meanwhile.
    private func collect() -> Changes {
        var changes = Changes()
        var places: [VBucketID: [[UInt8]: Int]] = [:]
        for (index, (reading, _)) in pending.mapped.enumerated() {
            for change in reading.batch.changes where isCurrent(change.vBucket, in: reading) {
                let id = reading.batch.id(of: change).bytes
                let document = Changes.Document(reading: index, change: change)
                let count = changes.documents.count
                if let earlier = places[change.vBucket, default: [:]].updateValue(count, forKey: id)
                {
                    changes.documents[earlier] = document
                    places[change.vBucket]?[id] = earlier
                } else {
                    changes.documents.append(document)
                }
            }
            for (vBucket, position) in reading.batch.positions
            where isCurrent(vBucket, in: reading) {
                changes.positions[vBucket] = position
            }
        }
        return changes
    }

    /// Whether a vBucket's feed is still the one that a batch was read from.
    func isCurrent(_ vBucket: VBucketID, in reading: Reading) -> Bool {
        guard let number = reading.feeds[vBucket] else { return false }
        return number == sources.feeds[vBucket]?.number
    }

    /// Stores changes and removes rows of a vBucket, in one transaction.
    ///
    /// - Returns: Whether the last rows of `removal` are removed.
    private func store(_ changes: Changes, _ removal: VBucketID?) throws(StorageError) -> Bool {
        pending.refused = []
        return try file.commit { (transaction) throws(StorageError) in
            let nodes = StoredNodes(transaction.reads)
            let update = IndexUpdate(nodes.tree(transaction.head.back, .document))
            var isRemoved = false
            try reading { () throws(IndexError) in
                if let removal {
                    let unfinishedCompaction = try update.remove(
                        removal,
                        rowsMax: ViewIndex.removedRowsMax
                    )
                    isRemoved = !unfinishedCompaction
                }
                try add(changes, to: update)
            }
            let slots = progress.slots.numeric
            let incomplete = try transaction.apply(update, nodes, numericSlots: slots)
            for slot in incomplete { missed(slot) }
            try writeProgress(
                changes,
                removal,
                isRemoved: isRemoved,
                gains: update.gains,
                in: transaction
            )
            return isRemoved
        }
    }

    /// Adds the rows of the changed documents.
    private func add(_ changes: Changes, to update: IndexUpdate) throws(IndexError) {
        let rows = pending.mapped.map { EmittedRows($0.1) }
        let sortKey = ByteWriter()
        let collation = dependencies.collations.acquire()
        defer { dependencies.collations.release(collation) }
        for document in changes.documents {
            let (reading, _) = pending.mapped[document.reading]
            let id = reading.batch.id(of: document.change)
            update.begin(document.change.vBucket, id: id)
            if let item = document.change.item {
                let emitted = rows[document.reading]
                let isWhole = emitted.encode(Int(item), collation, into: sortKey) { key, value in
                    update.add(sortKey: key, value: value)
                }
                if !isWhole {
                    // A document has all of its rows or none.
                    update.discardRows()
                    refuse(id, ViewIndex.keyTooLong)
                }
            }
            try update.end()
        }
    }

    /// Stores homes, row counts and positions.
    private func writeProgress(
        _ changes: Changes,
        _ removal: VBucketID?,
        isRemoved: Bool,
        gains: [VBucketID: Int],
        in transaction: IndexTransaction
    ) throws(StorageError) {
        var vBuckets = Set(changes.positions.keys)
        if let removal { vBuckets.insert(removal) }
        for id in vBuckets.sorted() {
            if id == removal, isRemoved {
                try transaction.removeVBucket(id)
                continue
            }
            var row = try transaction.reads.vBucket(id) ?? IndexVBucket(id)
            let rows = Int(row.rows) + gains[id, default: 0]
            guard rows >= 0 else {
                throw StorageError(.damaged, "\(id) would have \(rows) rows")
            }
            row.rows = UInt64(rows)
            row.home = id == removal ? .leaving : row.home
            if let position = changes.positions[id] {
                row.home = progress.table.homeAfterCommit(of: id, at: position)
                row.position = position
            }
            try transaction.write(row)
        }
    }
}

/// Copying the write-ahead log into the index's file.
extension ViewIndex {
    /// Copies the write-ahead log if it has become large.
    func checkpointIfLarge() {
        if alarm.checkpoints.committed(walPages: file.walPages) { checkpoint() }
    }

    /// Copies everything that is in the write-ahead log now.
    func requestCheckpoint() {
        if alarm.checkpoints.request() { checkpoint() }
    }

    /// Copies the write-ahead log on another lane: a sync takes longer than a commit.
    private func checkpoint() {
        let (file, lane) = (file, dependencies.lane)
        dependencies.checkpoints.post { [weak self] in
            var failure: StorageError?
            do throws(StorageError) {
                _ = try file.checkpoint()
            } catch {
                failure = error
            }
            let error = failure
            lane.post { [weak self] in self?.endCheckpoint(error) }
        }
    }

    private func endCheckpoint(_ error: StorageError?) {
        let heldCommits = alarm.checkpoints.holdsCommits
        let continues: Bool
        if error == nil {
            continues = alarm.checkpoints.ended()
        } else {
            alarm.checkpoints.failed()
            continues = false
        }
        guard !health.isStopped, health.failure == nil else { return }
        if let error { handle(error) }
        if continues { checkpoint() }
        if heldCommits, !alarm.checkpoints.holdsCommits { resumeCommits() }
    }

    /// Posts the steps that have ended because commits were held, and commits what is due.
    private func resumeCommits() {
        guard health.failure == nil else { return }
        for work in SteppedWork.allCases { post(work) }
        advance()
    }
}
