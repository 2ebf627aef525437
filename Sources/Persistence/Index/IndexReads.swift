package import Bytes
package import Vocabulary

/// The reads of one connection to an index file.
///
/// - Between `IndexReader.begin` and `end`, and in a transaction, all reads see one commit;
///   otherwise each read sees the newest commit.
/// - Views that are passed to a closure are valid until the closure returns. The closure must not
///   start the same read again.
/// - A row that does not match its checksum is an error. Node bodies are returned unchecked: the
///   caller's checksum covers them, and should cover the node's number too.
package final class IndexReads {
    let connection: SQLiteConnection
    let statements: IndexStatements

    init(_ connection: SQLiteConnection) {
        self.connection = connection
        statements = IndexStatements(connection)
    }

    private func damage(_ what: String) -> StorageError {
        IndexSchema.damage(connection.path, what)
    }

    // MARK: Identity and head

    /// The file's constant part.
    ///
    /// - Throws: `StorageError`: `.damaged` if a row is missing or damaged, or a disk error.
    package func identity() throws(StorageError) -> IndexIdentity {
        IndexIdentity(
            signature: try meta("signature"),
            collator: try meta("collator"),
            bucketUUID: try meta("bucket_uuid"),
            mapSource: try meta("map_source")
        )
    }

    private func meta(_ name: String) throws(StorageError) -> String {
        guard let value = try metaIfPresent(name) else { throw damage("its \(name) is missing") }
        return value
    }

    private func metaIfPresent(_ name: String) throws(StorageError) -> String? {
        let row = try statements[.selectMeta]
        row.bind(name)
        defer { row.reset() }
        guard try row.step() else { return nil }
        let value = row.text(0)
        guard row.unsigned(1) == UInt64(IndexSchema.checksum(ofMeta: name, value)) else {
            throw damage("its \(name) does not match its checksum")
        }
        return value
    }

    /// The record of an unfinished compaction in the file; nil if there is none.
    ///
    /// - Throws: `StorageError`: `.damaged` if the row is damaged, or a disk error.
    package func unfinishedCompaction() throws(StorageError) -> UnfinishedCompaction? {
        guard let text = try metaIfPresent(UnfinishedCompaction.name) else { return nil }
        guard let unfinishedCompaction = UnfinishedCompaction(text: text) else {
            throw damage("its \(UnfinishedCompaction.name) is malformed")
        }
        return unfinishedCompaction
    }

    /// The head of the commit that this connection sees.
    ///
    /// - Throws: `StorageError`: `.damaged` if it is missing or damaged, or a disk error.
    package func head() throws(StorageError) -> IndexHead {
        let row = try statements[.selectHead]
        defer { row.reset() }
        guard try row.step() else { throw damage("its head is missing") }
        var head = IndexHead()
        head.commit = IndexCommit(row.unsigned(0))
        head.nextNode = IndexNodeID(row.unsigned(10))
        head.nextValue = IndexValueID(row.unsigned(11))
        if let state = IndexState(rawValue: UInt8(truncatingIfNeeded: row.integer(1))),
            let main = root(row, 2), let back = root(row, 6)
        {
            head.state = state
            head.main = main
            head.back = back
            if row.unsigned(12) == UInt64(head.checksum) { return head }
        }
        throw damage("its head does not match its checksum")
    }

    /// The root in four columns; nil if one of them is out of its range.
    private func root(_ row: Statement, _ first: Int32) -> IndexRoot? {
        guard let height = UInt32(exactly: row.integer(first + 1)),
            let version = UInt32(exactly: row.integer(first + 2))
        else { return nil }
        return IndexRoot(
            node: IndexNodeID(row.unsigned(first)),
            height: height,
            version: version,
            rows: row.unsigned(first + 3)
        )
    }

    // MARK: Bodies

    /// Calls `body` with the bytes of a node, borrowed; nil if there is no such node.
    ///
    /// - Throws: `StorageError`: `.damaged` if SQLite detects damage, a disk error, or the error
    ///   of `body`.
    package func withNode<Result>(
        _ id: IndexNodeID,
        _ body: (ByteView) throws(StorageError) -> Result
    ) throws(StorageError) -> Result? {
        let row = try statements[.selectNode]
        row.bind(id.value)
        defer { row.reset() }
        guard try row.step() else { return nil }
        return try body(row.bytes(0))
    }

    /// Appends the bytes of a node to `writer`; false if there is no such node.
    ///
    /// - Throws: `StorageError`: `.damaged` if SQLite detects damage, or a disk error.
    package func node(_ id: IndexNodeID, into writer: ByteWriter) throws(StorageError) -> Bool {
        try withNode(id) { writer.append($0) } != nil
    }

    /// Appends a value to `writer`; false if there is no such value.
    ///
    /// - Throws: `StorageError`: `.damaged` if the row is damaged, or a disk error.
    package func value(_ id: IndexValueID, into writer: ByteWriter) throws(StorageError) -> Bool {
        let row = try statements[.selectValue]
        row.bind(id.value)
        return try append(row, to: writer, name: "value \(id.value)") {
            IndexChecksum.value(id, $0)
        }
    }

    /// Appends a node's stored reduction to `writer`; false if there is none.
    ///
    /// - Throws: `StorageError`: `.damaged` if the row is damaged, or a disk error.
    package func reduction(
        _ slot: IndexSlotID,
        _ node: IndexNodeID,
        into writer: ByteWriter
    ) throws(StorageError) -> Bool {
        let row = try statements[.selectReduction]
        row.bind(slot.value, node.value)
        return try append(row, to: writer, name: "a reduction of node \(node.value)") { body in
            IndexChecksum.reduction(slot, node, body: body)
        }
    }

    /// Appends a chunk of a run to `writer`; false if the run has no such chunk.
    ///
    /// Runs do not change while they exist, so that a merge reads them without a snapshot.
    ///
    /// - Throws: `StorageError`: `.damaged` if the row is damaged, or a disk error.
    package func chunk(
        _ number: UInt32,
        of run: IndexRunID,
        into writer: ByteWriter
    ) throws(StorageError) -> Bool {
        let row = try statements[.selectChunk]
        row.bind(run.tree.rawValue, run.number, number)
        return try append(row, to: writer, name: "chunk \(number) of run \(run.number)") { body in
            IndexChecksum.chunk(run, number, body: body)
        }
    }

    /// Appends the body of a row with the columns checksum and body.
    private func append(
        _ row: Statement,
        to writer: ByteWriter,
        name: @autoclosure () -> String,
        checksum: (ByteView) -> UInt32
    ) throws(StorageError) -> Bool {
        defer { row.reset() }
        guard try row.step() else { return false }
        let body = row.bytes(1)
        guard row.unsigned(0) == UInt64(checksum(body)) else {
            throw damage("\(name()) does not match its checksum")
        }
        writer.append(body)
        return true
    }

    // MARK: vBuckets

    /// The index's progress in a vBucket; nil if the index has no row for it.
    ///
    /// - Throws: `StorageError`: `.damaged` if the row is damaged, or a disk error.
    package func vBucket(_ id: VBucketID) throws(StorageError) -> IndexVBucket? {
        let row = try statements[.selectVBucket]
        row.bind(id.number)
        defer { row.reset() }
        guard try row.step() else { return nil }
        return try readVBucket(row)
    }

    /// The progress in all vBuckets, in ascending order.
    ///
    /// - Throws: `StorageError`: `.damaged` if a row is damaged, or a disk error.
    package func vBuckets() throws(StorageError) -> [IndexVBucket] {
        let rows = try statements[.selectVBuckets]
        defer { rows.reset() }
        var found: [IndexVBucket] = []
        while try rows.step() {
            let vBucket = try readVBucket(rows)
            // A damaged B-tree may return rows again and again.
            if let last = found.last, last.id >= vBucket.id {
                throw damage("its vBuckets are out of order")
            }
            found.append(vBucket)
        }
        return found
    }

    private func readVBucket(_ row: Statement) throws(StorageError) -> IndexVBucket {
        if let number = UInt16(exactly: row.integer(0)),
            let home = VBucketHome(rawValue: UInt8(truncatingIfNeeded: row.integer(1)))
        {
            var vBucket = IndexVBucket(VBucketID(number))
            vBucket.home = home
            vBucket.root = IndexNodeID(row.unsigned(2))
            vBucket.rows = row.unsigned(3)
            vBucket.uuid = VBucketUUID(row.unsigned(4))
            vBucket.seqno = Seqno(row.unsigned(5))
            vBucket.snapshotStart = Seqno(row.unsigned(6))
            vBucket.snapshotEnd = Seqno(row.unsigned(7))
            vBucket.logFloor = Seqno(row.unsigned(8))
            if row.unsigned(9) == UInt64(vBucket.checksum) { return vBucket }
        }
        throw damage("the row of vBucket \(row.integer(0)) does not match its checksum")
    }

    // MARK: Lists

    /// All slots, in ascending order.
    ///
    /// - Throws: `StorageError`: `.damaged` if a row is damaged, or a disk error.
    package func slots() throws(StorageError) -> [IndexSlot] {
        let rows = try statements[.selectSlots]
        defer { rows.reset() }
        var found: [IndexSlot] = []
        while try rows.step() {
            let slot = IndexSlot(
                id: IndexSlotID(UInt32(truncatingIfNeeded: rows.integer(0))),
                signature: rows.text(1),
                kind: UInt8(truncatingIfNeeded: rows.integer(2)),
                source: rows.text(3)
            )
            let isNext = found.last.map { $0.id.value < slot.id.value } ?? true
            guard isNext, rows.unsigned(4) == UInt64(slot.checksum) else {
                throw damage("slot \(rows.integer(0)) does not match its checksum")
            }
            found.append(slot)
        }
        return found
    }

    /// Visits the log entries of the commits after `commit`, oldest first, until `visit` returns
    /// false.
    ///
    /// - Throws: `StorageError`: `.damaged` if a row is damaged, or a disk error.
    package func forEachLogEntry(
        after commit: IndexCommit,
        _ visit: (IndexCommit, ByteView) -> Bool
    ) throws(StorageError) {
        let rows = try statements[.selectLog]
        rows.bind(commit.value)
        defer { rows.reset() }
        var last = commit
        while try rows.step() {
            let found = IndexCommit(rows.unsigned(0))
            let body = rows.bytes(2)
            guard found > last, rows.unsigned(1) == UInt64(IndexChecksum.log(found.value, body))
            else { throw damage("log entry \(found.value) does not match its checksum") }
            last = found
            guard visit(found, body) else { return }
        }
    }

    /// The newest faults, at most 100, oldest first.
    ///
    /// - Throws: `StorageError`: `.damaged` if a row is damaged, or a disk error.
    package func faults() throws(StorageError) -> [IndexFault] {
        try numberedFaults().map(\.fault)
    }

    func numberedFaults() throws(StorageError) -> [(number: UInt64, fault: IndexFault)] {
        let rows = try statements[.selectFaults]
        defer { rows.reset() }
        var found: [(number: UInt64, fault: IndexFault)] = []
        while try rows.step() {
            let number = rows.unsigned(0)
            let fault = IndexFault(
                view: rows.text(1),
                document: rows.bytes(2).bytes,
                line: UInt32(truncatingIfNeeded: rows.integer(3)),
                text: rows.text(4)
            )
            guard number > found.last?.number ?? 0,
                rows.unsigned(5) == UInt64(fault.checksum(number: number))
            else { throw damage("fault \(number) does not match its checksum") }
            found.append((number, fault))
        }
        return found
    }

    /// The stored runs, by tree and number.
    ///
    /// While runs are being removed after a build, a run may have fewer chunks than were written.
    ///
    /// - Throws: `StorageError`: `.damaged` if a chunk is missing, or a disk error.
    package func runs() throws(StorageError) -> [IndexRun] {
        let rows = try statements[.selectRuns]
        defer { rows.reset() }
        var found: [IndexRun] = []
        while try rows.step() {
            guard let tree = IndexTree(rawValue: UInt8(truncatingIfNeeded: rows.integer(0))),
                let number = UInt32(exactly: rows.integer(1)),
                let chunks = UInt32(exactly: rows.integer(2)), rows.integer(3) + 1 == chunks
            else { throw damage("run \(rows.integer(1)) is incomplete") }
            let run = IndexRun(id: IndexRunID(tree, number), chunks: chunks)
            if found.last?.id == run.id { throw damage("run \(number) appears twice") }
            found.append(run)
        }
        return found
    }

    // MARK: Checking

    /// The findings of SQLite's own check of the file's pages; empty if there are none.
    ///
    /// - Throws: `StorageError` if the file cannot be read.
    package func pageFaults() throws(StorageError) -> [String] {
        try connection.texts("PRAGMA integrity_check").filter { $0 != "ok" }
    }

    /// Visits every node in ascending order, for tools, until `visit` returns false.
    ///
    /// - Throws: `StorageError`: `.damaged` if SQLite detects damage, or a disk error.
    package func forEachNode(
        _ visit: (IndexNodeID, ByteView) -> Bool
    ) throws(StorageError) {
        let rows = try connection.prepare("SELECT id, body FROM node ORDER BY id")
        var last = IndexNodeID.none
        while try rows.step() {
            let id = IndexNodeID(rows.unsigned(0))
            guard id > last else { throw damage("its nodes are out of order") }
            last = id
            guard visit(id, rows.bytes(1)) else { return }
        }
    }

    /// Visits the number of every value in ascending order, for tools, until `visit` returns false.
    ///
    /// - Throws: `StorageError`: `.damaged` if SQLite detects damage, or a disk error.
    package func forEachValue(_ visit: (IndexValueID) -> Bool) throws(StorageError) {
        let rows = try connection.prepare("SELECT id FROM big ORDER BY id")
        var last = IndexValueID(0)
        while try rows.step() {
            let id = IndexValueID(rows.unsigned(0))
            guard id.value > last.value else { throw damage("its values are out of order") }
            last = id
            guard visit(id) else { return }
        }
    }
}
