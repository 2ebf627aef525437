internal import Bytes
internal import Indexing
internal import Persistence
internal import Seams
internal import Vocabulary

/// Compaction of the index's file, in steps.
///
/// Each step is a commit of its own. Queries read throughout, in the snapshots that they have. Commits
/// of rows wait while the trees are copied, so that a copy is that of one commit: for about a second
/// with a million rows. `stale=false` waits that long.
extension ViewIndex {
    /// Bytes of keys and values that a step copies.
    private static let copiedBytesMax = 256 << 10
    /// Nodes and tables, and values, that a step removes.
    private static let removedNodesMax = 1_000
    private static let removedValuesMax = 100
    /// Chunks of runs, of 64 KiB, that a step removes.
    private static let removedChunksMax = 50
    /// Pages that a step returns to the file system.
    private static let releasedPagesMax = 500
    /// The pause between two steps behind the copy: other work of the lane comes in between.
    private static let pauseNanoseconds: UInt64 = 2_000_000

    /// Begins a compaction, unless one is running, or the first build writes full nodes anyway.
    ///
    /// Any thread; returns at once.
    package func compact() {
        dependencies.lane.post { [self] in
            let isRunning = progress.compaction.map { !$0.removesRuns } ?? false
            guard !health.isStopped, health.failure == nil, !isRunning, progress.load == nil else {
                return
            }
            dependencies.environment.trace.info("views", "Index \(name): compaction begins")
            // Old runs are removed after it.
            progress.compaction = IndexCompaction()
            post(.compaction)
        }
    }

    /// Removes the runs of a build that has ended, when no compaction is running.
    func removeOldRuns() {
        progress.hasOldRuns = true
        guard progress.compaction == nil else { return }
        progress.compaction = IndexCompaction(removesRuns: true)
        post(.compaction)
    }

    /// Aborts a compaction that is still copying.
    ///
    /// Any thread; returns at once.
    package func cancelCompaction() {
        dependencies.lane.post { [self] in
            guard !health.isStopped, health.failure == nil else { return }
            progress.compaction?.cancel()
            advance()
        }
    }

    func stepCompaction() {
        guard let phase = progress.compaction?.phase else { return }
        do throws(StorageError) {
            if let next = try step(phase) {
                progress.compaction?.phase = next
            } else {
                endCompaction()
            }
        } catch {
            // If the disk is full, there is no room for a copy: the index continues without.
            progress.compaction?.cancel()
            handle(error)
        }
        checkpointIfLarge()
        let isCopying = progress.compaction?.holdsCommits == true
        post(.compaction, after: isCopying ? 0 : Self.pauseNanoseconds)
        if !isCopying { advance() }
    }

    private func endCompaction() {
        let removedRuns = progress.compaction?.removesRuns ?? false
        progress.compaction = nil
        // Only a checkpoint shortens the file.
        requestCheckpoint()
        guard !removedRuns else { return }
        dependencies.environment.trace.info("views", "Index \(name): compaction ended")
        if progress.hasOldRuns { removeOldRuns() }
    }

    /// Carries out a step; returns what is next, nil at the end.
    private func step(
        _ phase: IndexCompaction.Phase
    ) throws(StorageError) -> IndexCompaction.Phase? {
        switch phase {
        case .discarding(let continues): return try discard(continues: continues)
        case .rows(let copy): return try copyRows(copy)
        case .documents(let copy, let rows): return try copyDocuments(copy, rows)
        case .removing(let node, let value): return try removeTrees(below: node, value)
        case .removingRuns: return try removeRuns()
        case .releasing(let free):
            let left = try file.commit { (transaction) throws(StorageError) in
                try transaction.releaseFreePages(countMax: Self.releasedPagesMax)
            }
            return left == 0 || left >= free ? nil : .releasing(free: left)
        }
    }

    private func discard(
        continues: Bool
    ) throws(StorageError) -> IndexCompaction.Phase? {
        let isDone = try file.commit { (transaction) throws(StorageError) in
            let (node, value) = (transaction.head.nextNode, transaction.head.nextValue)
            let nodes = try transaction.removeNodes(from: node, countMax: Self.removedNodesMax)
            let values = try transaction.removeValues(from: value, countMax: Self.removedValuesMax)
            guard nodes < Self.removedNodesMax, values < Self.removedValuesMax else {
                return false
            }
            try transaction.write(continues ? .copy : nil)
            return true
        }
        guard isDone else { return .discarding(continues: continues) }
        guard continues else { return .releasing(free: .max) }
        return .rows(TreeCopy(of: .row, numbers: try file.head().numbers))
    }

    // MARK: Copying

    private func copyRows(_ copy: TreeCopy) throws(StorageError) -> IndexCompaction.Phase {
        let head = try file.head()
        let values = try copyStep(copy, head.main, of: .row)
        try file.commit { (transaction) throws(StorageError) in
            try transaction.store(copy.writes, values)
        }
        copy.writes.removeAll()
        guard let rows = copy.root else { return .rows(copy) }
        return .documents(TreeCopy(of: .document, numbers: copy.numbers), rows: rows)
    }

    /// Copies documents' entries; with the last of them, the copies replace the trees.
    private func copyDocuments(
        _ copy: TreeCopy,
        _ rows: TreeRoot
    ) throws(StorageError) -> IndexCompaction.Phase {
        let head = try file.head()
        let values = try copyStep(copy, head.back, of: .document)
        guard let documents = copy.root else {
            try file.commit { (transaction) throws(StorageError) in
                try transaction.store(copy.writes, values)
            }
            copy.writes.removeAll()
            return .documents(copy, rows: rows)
        }
        guard rows.rows == head.main.rows, documents.rows == head.back.rows else {
            throw StorageError(
                .damaged,
                "a copy has \(rows.rows) rows of \(documents.rows) documents, and the index "
                    + "\(head.main.rows) of \(head.back.rows)"
            )
        }
        // The copies have no results yet: until these are filled in, queries read rows.
        for slot in progress.slots.numeric { missed(slot) }
        try file.commit { (transaction) throws(StorageError) in
            try transaction.store(copy.writes, values)
            transaction.head.main = IndexRoot(rows)
            transaction.head.back = IndexRoot(documents)
            transaction.head.numbers = copy.numbers
            try transaction.write(.trees(below: head.nextNode, head.nextValue))
        }
        return .removing(below: head.nextNode, head.nextValue)
    }

    /// Copies a part of a tree; returns the values that do not fit into leaves.
    private func copyStep(
        _ copy: TreeCopy,
        _ root: IndexRoot,
        of kind: EntryKind
    ) throws(StorageError) -> [(id: IndexValueID, body: [UInt8])] {
        var values: [(id: IndexValueID, body: [UInt8])] = []
        try file.readNewest { (reads) throws(StorageError) in
            try reading { () throws(IndexError) in
                _ = try copy.step(
                    StoredNodes(reads).tree(root, kind),
                    bytesMax: Self.copiedBytesMax,
                    storeValue: { values.append(($0, $1.bytes)) }
                )
            }
        }
        return values
    }

    // MARK: Removing

    private func removeTrees(
        below node: IndexNodeID,
        _ value: IndexValueID
    ) throws(StorageError) -> IndexCompaction.Phase {
        let isDone = try file.commit { (transaction) throws(StorageError) in
            let nodes = try transaction.removeNodes(below: node, countMax: Self.removedNodesMax)
            guard nodes < Self.removedNodesMax else { return false }
            let values = try transaction.removeValues(
                below: value,
                countMax: Self.removedValuesMax
            )
            guard values < Self.removedValuesMax else { return false }
            // Results are removed after the nodes: queries store results only while their nodes exist.
            for slot in try transaction.reads.slots() {
                let tables = try transaction.removeReductions(
                    slot.id,
                    below: node,
                    countMax: Self.removedNodesMax
                )
                guard tables < Self.removedNodesMax else { return false }
            }
            try transaction.write(nil)
            return true
        }
        return isDone ? .releasing(free: .max) : .removing(below: node, value)
    }

    private func removeRuns() throws(StorageError) -> IndexCompaction.Phase {
        let isDone = try file.commit { (transaction) throws(StorageError) in
            guard let run = try transaction.reads.runs().last else { return true }
            _ = try transaction.removeChunks(of: run.id, countMax: Self.removedChunksMax)
            return false
        }
        guard isDone else { return .removingRuns }
        progress.hasOldRuns = false
        return .releasing(free: .max)
    }
}
