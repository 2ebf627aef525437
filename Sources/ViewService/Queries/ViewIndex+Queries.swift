internal import Bytes
internal import Indexing
internal import Persistence
internal import Seams
internal import Vocabulary

/// What queries ask an index.
extension ViewIndex {
    /// Passes the share of the index that is built to `done`, in percent, on the index's lane; 100
    /// only if it is complete.
    func builtPercent(_ done: @escaping @Sendable (Int) -> Void) {
        surroundings.lane.post { [self] in
            guard !progress.table.isReady else { return done(100) }
            done(min(99, Int(progress.table.progress * 100)))
        }
    }

    /// The inner nodes that queries share; any thread.
    var innerNodes: KeptNodes { shared.withLock { $0.innerNodes } }

    /// The leaves that queries share; any thread.
    var recentLeaves: KeptNodes { shared.withLock { $0.recentLeaves } }

    /// What the commit of a reader's snapshot has.
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
