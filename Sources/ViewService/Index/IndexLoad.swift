internal import Bytes
internal import Indexing
internal import Persistence
internal import Vocabulary

/// The first build of one index: its documents are collected in sorted runs, of which the trees are
/// made at the end.
///
/// Runs in the file are rows of the table `run`. The first chunk of a run's documents has the positions
/// that all runs up to it end with, so that the table of vBuckets stays empty until there are trees: a
/// release without bulk loads builds such an index from the beginning.
struct IndexLoad {
    let runs: BulkLoad
    /// Makes the trees; nil while documents are collected.
    var merge: LoadMerge?
    /// Values of the last step of the merge; nil if the step is stored.
    var values: [(id: IndexValueID, body: [UInt8])]?

    var isCollecting: Bool { merge == nil }

    /// The load that a file begins or continues with.
    ///
    /// - Throws: `StorageError`: `.damaged` if its runs are not those of a load, or a disk error.
    /// - Returns: Nil if the index has rows, or has had some; then also whether the file has runs of an
    ///   earlier load.
    static func stored(
        _ reads: IndexReads,
        _ head: IndexHead,
        vBuckets: [IndexVBucket],
        limits: BulkLoad.Limits,
        now: UInt64
    ) throws(StorageError) -> (load: IndexLoad?, hasOldRuns: Bool) {
        let runs = try reads.runs().map(\.id)
        let isEmpty = head.main.node == .none && head.back.node == .none
        guard head.state == .building, isEmpty,
            vBuckets.allSatisfy({ $0.home == .filling || $0.home == .none })
        else { return (nil, !runs.isEmpty) }
        let numbers = runs.filter { $0.tree == .back }.map(\.number)
        let count = UInt32(numbers.count)
        guard numbers == Array(0..<count), runs.allSatisfy({ $0.number < count }) else {
            throw StorageError(.damaged, "a run of the first build is missing")
        }
        var positions: [VBucketID: IndexPosition] = [:]
        if count > 0 {
            let chunk = ByteWriter()
            let isFound = try reads.chunk(0, of: IndexRunID(.back, count - 1), into: chunk)
            guard isFound, let found = LoadPositions.decode(chunk.view) else {
                throw StorageError(.damaged, "the positions of a run are malformed")
            }
            positions = found
        }
        let load = BulkLoad(storedRuns: count, positions: positions, now: now, limits: limits)
        return (IndexLoad(runs: load), false)
    }
}

extension IndexTransaction {
    /// Stores a run with the positions that all runs up to it end with.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    func store(
        _ run: SortedRun,
        number: UInt32,
        _ positions: [VBucketID: IndexPosition]
    ) throws(StorageError) {
        let text = ByteWriter()
        LoadPositions.append(positions, to: text)
        let documents = IndexRunID(.back, number)
        try writeChunk(0, of: documents, text.view)
        try run.documents.forEachChunk { (chunk, body) throws(StorageError) in
            try writeChunk(chunk + 1, of: documents, body)
        }
        try run.rows.forEachChunk { (chunk, body) throws(StorageError) in
            try writeChunk(chunk, of: IndexRunID(.main, number), body)
        }
    }
}

extension IndexReads {
    /// Appends a chunk of a stored run to `output`; false if there is no such chunk.
    ///
    /// - Throws: `IndexError.damaged` if the chunk is damaged, `unreadable` if reading failed.
    func chunk(_ chunk: RunChunk, into output: ByteWriter) throws(IndexError) -> Bool {
        let isRow = chunk.kind == .row
        return try fetching { () throws(StorageError) in
            try self.chunk(
                isRow ? chunk.number : chunk.number + 1,
                of: IndexRunID(isRow ? .main : .back, chunk.run),
                into: output
            )
        }
    }
}
