internal import Bytes
internal import Indexing
internal import Persistence
internal import Seams

/// An index's state for queries: built share, shared nodes and contents.
extension ViewIndex {
    /// Passes the share of the index that is built to `done`, in percent, on the index's lane; 100
    /// only if it is complete.
    func builtPercent(_ done: @escaping @Sendable (Int) -> Void) {
        dependencies.lane.post { [self] in
            guard !progress.table.isReady else { return done(100) }
            done(min(99, Int(progress.table.progress * 100)))
        }
    }

    /// The nodes that queries share, for a query that begins; any thread.
    func shareNodes() -> (inner: KeptNodes, leaves: KeptNodes) {
        shared.withLock { shared in
            shared.idle.mark()
            return (shared.innerNodes, shared.recentLeaves)
        }
    }

    /// Bytes of the nodes that queries share; any thread.
    package var keptBytes: Int {
        let (inner, leaves) = shared.withLock { ($0.innerNodes, $0.recentLeaves) }
        return inner.memoryBytes + leaves.memoryBytes
    }

    /// Frees what is kept in memory for queries if there was none for a while: nodes, and the connections
    /// to the file with their caches.
    ///
    /// Any thread that may close a file.
    func freeIfIdle(_ now: UInt64) {
        let isInUse = file.isBeingRead
        let freed = shared.withLock { shared -> [KeptNodes] in
            guard shared.idle.check(now, isInUse: isInUse) else { return [] }
            shared.contents = nil
            return [shared.innerNodes, shared.recentLeaves]
        }
        guard !freed.isEmpty else { return }
        for nodes in freed { nodes.removeAll() }
        file.closeIdleReaders()
    }

    /// The contents of the commit that a reader's snapshot has.
    ///
    /// Any thread. Most queries read the same commit, so the contents of the newest one are kept.
    ///
    /// - Throws: `StorageError`: `.damaged` if a row is damaged, or a disk error.
    func contents(
        of commit: IndexCommit,
        in reader: IndexReader
    ) throws(StorageError) -> IndexContents {
        if let known = shared.withLock({ $0.contents }), known.commit == commit { return known }
        let stored = try reader.use { (reads) throws(StorageError) in try reads.vBuckets() }
        let contents = IndexContents(of: commit, stored)
        shared.withLock { shared in
            // A query on another thread may have read a newer commit meanwhile.
            let isNewer = shared.contents.map { $0.commit < commit } ?? true
            if isNewer { shared.contents = contents }
        }
        return contents
    }
}
