package import Bytes
internal import JSON
package import Vocabulary

/// Makes the two trees of an index of sorted runs, in steps of bounded work.
///
/// The documents' entries are merged first: of several versions of a document the newest counts, and
/// the rows of older versions that it does not have become removals, which are merged with the rows as
/// the newest run.
///
/// - The runs are the same at every step.
/// - Holds one node of each level, what the caller has not yet collected, one chunk of each stored run,
///   and the removals.
package final class LoadMerge {
    private enum Phase {
        /// Next: rows.
        case documents
        /// Next: complete.
        case rows
        case complete
    }

    /// The newest record of a key so far.
    private struct Pending {
        let key = ByteWriter()
        let value = ByteWriter()
        var vBucket = VBucketID(0)
        var isRemoval = false
        var isPresent = false

        /// Replaces the record by a copy of `record`.
        mutating func set(_ record: RunRecord) {
            key.removeAll()
            key.append(record.key)
            setValue(record)
            vBucket = record.vBucket
            isPresent = true
        }

        mutating func setValue(_ record: RunRecord) {
            value.removeAll(keepingAtMost: 1 << 20)
            value.append(record.value)
            isRemoval = record.isRemoval
        }
    }

    /// The roots of the trees, once they are complete.
    package private(set) var documents = TreeRoot.empty
    package private(set) var rows = TreeRoot.empty
    /// Rows by vBucket.
    package private(set) var rowCounts: [VBucketID: UInt64] = [:]
    private let storedRuns: UInt32
    private let sorted: [SortedRun]
    private let format: NodeFormat
    private var phase = Phase.documents
    private var runs: RunMerge
    private var builder: BulkBuilder
    private var pending = Pending()
    private var removals = Removals()

    init(
        storedRuns: UInt32,
        _ sorted: [SortedRun],
        _ numbers: TreeNumbers,
        format: NodeFormat
    ) {
        self.storedRuns = storedRuns
        self.sorted = sorted
        self.format = format
        let stored = (0..<storedRuns).map { RunCursor(stored: .document, of: $0) }
        runs = RunMerge(stored + sorted.map { RunCursor($0.documents) })
        builder = BulkBuilder(of: .document, format: format, numbers: numbers)
    }

    /// Complete nodes, children first; the caller stores them and calls `removeAll`.
    package var writes: NodeWriteList { builder.writes }

    /// The next free numbers.
    package var numbers: TreeNumbers { builder.numbers }

    package var isComplete: Bool { phase == .complete }

    /// Merges records until about `bytesMax` bytes of keys and values are merged; at the end of the
    /// documents, a step ends too.
    ///
    /// - Parameters:
    ///   - bytesMax: The bound.
    ///   - read: Appends a chunk of a stored run to the writer; false if there is no such chunk.
    ///   - storeValue: Called with each value that does not fit into a leaf; borrowed.
    /// - Throws: What `read` throws, and `IndexError.damaged`; the merge must not be continued then.
    package func step(
        bytesMax: Int,
        read: (RunChunk, ByteWriter) throws(IndexError) -> Bool,
        storeValue: (IndexValueID, ByteView) -> Void
    ) throws(IndexError) {
        guard !isComplete else { return }
        try runs.begin(read)
        var bytes = 0
        while let record = runs.record {
            guard bytes < bytesMax else { return }
            bytes += record.key.count + record.value.count
            try accept(record, storeValue)
            try runs.advance(read)
        }
        try flush(storeValue)
        endPhase()
    }

    private func endPhase() {
        let root = builder.finish()
        guard case .documents = phase else {
            rows = root
            phase = .complete
            return
        }
        documents = root
        phase = .rows
        let stored = (0..<storedRuns).map { RunCursor(stored: .row, of: $0) }
        let removed = removals.removeParts().map { RunCursor($0) }
        runs = RunMerge(stored + sorted.map { RunCursor($0.rows) } + removed)
        // The nodes of both trees are collected in one list.
        builder = BulkBuilder(
            of: .row,
            format: format,
            numbers: builder.numbers,
            writes: builder.writes
        )
    }

    // MARK: Records

    private func accept(
        _ record: RunRecord,
        _ storeValue: (IndexValueID, ByteView) -> Void
    ) throws(IndexError) {
        guard pending.isPresent else { return pending.set(record) }
        if record.key.equals(pending.key.view) {
            if case .documents = phase { try removals.replace(pending.value.view) }
            return pending.setValue(record)
        }
        guard pending.key.view.precedes(record.key) else {
            throw .damaged(.none, "a sorted run is not in order")
        }
        try flush(storeValue)
        pending.set(record)
    }

    /// Appends the pending record to the tree.
    private func flush(
        _ storeValue: (IndexValueID, ByteView) -> Void
    ) throws(IndexError) {
        guard pending.isPresent else { return }
        pending.isPresent = false
        let (key, value) = (pending.key.view, pending.value.view)
        if case .documents = phase {
            try removals.end(key, value)
            // A document that emits nothing has no entry.
            guard !value.isEmpty else { return }
        } else {
            guard !pending.isRemoval else { return }
            rowCounts[pending.vBucket, default: 0] += 1
        }
        let id = builder.append(key: key, vBucket: pending.vBucket, value: value)
        if let id { storeValue(id, value) }
    }

    /// The rows of replaced versions of documents.
    private struct Removals {
        /// The rows of older versions of the document that is being merged.
        private var replaced: Set<RowName> = []
        private let sorter = RunSorter()
        private var parts: [RunPart] = []
        private let key = ByteWriter()

        /// Removals that are sorted together.
        private static let partBytes = 2 << 20

        /// An older version of the document has the rows in `entry`.
        mutating func replace(_ entry: ByteView) throws(IndexError) {
            replaced.formUnion(try Removals.names(entry))
        }

        /// The newest version of the document has the rows in `entry`.
        mutating func end(_ key: ByteView, _ entry: ByteView) throws(IndexError) {
            guard !replaced.isEmpty else { return }
            replaced.subtract(try Removals.names(entry))
            guard let id = BackEntry.documentID(inKey: key) else {
                throw .damaged(.none, "an entry of a sorted run has no vBucket")
            }
            for name in replaced {
                self.key.removeAll()
                name.sortKey.withUnsafeBytes { sortKey in
                    RowKey.append(
                        sortKey: ByteView(sortKey),
                        id: id,
                        ordinal: name.number,
                        to: self.key
                    )
                }
                sorter.append(
                    key: self.key.view,
                    vBucket: VBucketID(0),
                    value: .empty,
                    isRemoval: true
                )
            }
            replaced.removeAll()
            if sorter.byteCount >= Removals.partBytes { parts.append(sorter.removeSorted()) }
        }

        /// All removals, in sorted parts.
        mutating func removeParts() -> [RunPart] {
            if !sorter.isEmpty { parts.append(sorter.removeSorted()) }
            return exchange(&parts, with: [])
        }

        private static func names(_ entry: ByteView) throws(IndexError) -> Set<RowName> {
            var names: Set<RowName> = []
            let isWhole = BackEntry.forEachRow(in: entry) { row in
                names.insert(RowName(sortKey: row.sortKey.bytes, number: row.number))
            }
            guard isWhole else {
                throw .damaged(.none, "an entry of a sorted run is malformed")
            }
            return names
        }
    }
}
