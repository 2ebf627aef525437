internal import Bytes
internal import Indexing
internal import Persistence
internal import Vocabulary

/// A reader of an index for one query: one commit, the part of it that the query reads, and how far
/// the query has come.
final class QuerySnapshot {
    /// The rows of the requested vBuckets that the commit has completely.
    let rows: UInt64
    /// The other requested vBuckets, in ascending order.
    let missing: [VBucketID]
    /// The reduction of the rows; nil for a query of rows.
    let reduction: QueryReduction?
    private let reader: IndexReader
    private let index: ViewIndex
    /// The reduction's name, and its stored results in the snapshot; nil if there are none.
    private let partials: (name: IndexSignature, slot: IndexSlotID)?
    private let source: SnapshotSource
    private let scan: QueryScan
    private var batch = RowBatchWriter()
    private var isClosed = false

    /// Begins a snapshot, for which `reader` was acquired; nil, with the reader released, if the node
    /// does not have the query's reduction.
    ///
    /// - Throws: `StorageError` if the file cannot be read; the reader is released then.
    init?(
        _ reader: IndexReader,
        of index: ViewIndex,
        request: QueryRequest,
        dependencies: QueryResponder.Dependencies
    ) throws(StorageError) {
        self.reader = reader
        self.index = index
        source = SnapshotSource(index.shareNodes())
        let file = index.file
        let slot = request.index.slot
        let reduction = slot.flatMap {
            dependencies.buckets.reduction($0, ofBucket: request.bucket)
        }
        guard request.scan.reduction == .none || reduction != nil else {
            file.release(reader)
            return nil
        }
        self.reduction = request.scan.reduction == .none ? nil : reduction
        let head: IndexHead
        let contents: IndexContents
        var storage: IndexSlotID?
        do throws(StorageError) {
            head = try reader.begin()
            contents = try index.contents(of: head.commit, in: reader)
            if self.reduction != nil, let slot {
                storage = try reader.use { (reads) throws(StorageError) in
                    try index.slot(slot, in: reads)
                }
            }
        } catch {
            file.release(reader)
            throw error
        }
        let part = contents.part(of: request.vBuckets)
        rows = part.rows
        missing = part.missing
        partials = slot.flatMap { name in storage.map { (name, $0) } }
        let input = ScanInput(
            plan: request.scan,
            source: source,
            tree: Tree(TreeRoot(head.main), of: .row, from: source),
            // The tree has rows of other vBuckets exactly if it has more rows.
            mask: head.main.rows == rows ? nil : part.complete
        )
        switch self.reduction {
        case nil: scan = IndexScan(input)
        case .count: scan = GroupScan(input, countsOnly: true)
        case .numbers: scan = GroupScan(input, countsOnly: false)
        case .custom: scan = CustomScan(input)
        }
    }

    /// Reads at most `rowsMax` rows for one turn; rows are collected for `removeBatch`.
    ///
    /// - Throws: `StorageError` if the file cannot be read.
    func step(rowsMax: Int) throws(StorageError) -> ScanStep {
        try reader.use { (reads) throws(StorageError) in
            var stored: (any PartialSource)?
            if let partials { stored = StoredPartials(reads, partials.slot) }
            return try reading { () throws(IndexError) in
                try source.turn(reads, stored, rowsMax: rowsMax) { () throws(IndexError) in
                    try scan.step(&batch)
                }
            }
        }
    }

    /// Continues with the results of the calls of the last step.
    func supply(_ results: [[UInt8]]) {
        scan.supply(results)
        let computed = scan.removeComputed()
        guard let partials, !computed.isEmpty else { return }
        index.store(computed, slot: partials.name)
    }

    var isBatchFull: Bool { batch.isFull }

    /// The collected rows as a batch; nil if there are none.
    func removeBatch() -> RowBatch? {
        guard !batch.isEmpty else { return nil }
        guard let rows = try? RowBatch(decoding: batch.finish()) else {
            preconditionFailure("a batch that was just written is a batch")
        }
        return rows
    }

    /// Ends the snapshot and releases its reader; closing twice does nothing.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        index.file.release(reader)
    }
}
