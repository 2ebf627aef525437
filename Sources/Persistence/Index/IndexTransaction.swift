package import Bytes
package import Vocabulary

/// The changes of one commit, made on the write connection.
///
/// - Valid only within the closure that `IndexFile.commit` passes it to.
/// - `reads` sees the changes that were made so far.
/// - Every change is idempotent, except the adding of slots and faults.
package final class IndexTransaction {
    /// Reads on the write connection.
    package let reads: IndexReads
    /// The head that the commit stores: the previous head with the next commit number.
    package var head: IndexHead
    private var slots: [IndexSlot]?
    private var statements: IndexStatements { reads.statements }

    init(_ reads: IndexReads, after head: IndexHead) {
        self.reads = reads
        self.head = head
        self.head.commit = head.commit.next
    }

    private func check(_ body: ByteView) {
        precondition(body.count <= IndexSchema.rowBytesMax, "a row fits into its limit")
    }

    /// Runs a statement; returns the number of changed rows.
    @discardableResult
    private func run(_ statement: Statement) throws(StorageError) -> Int {
        try statement.run()
        return reads.connection.changes
    }

    // MARK: Nodes and values

    /// Stores the bytes of a node; replaces its earlier bytes.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func write(_ id: IndexNodeID, _ body: ByteView) throws(StorageError) {
        precondition(id > .none, "a node has a number")
        check(body)
        let row = try statements[.writeNode]
        row.bind(1, id.value)
        row.bind(2, borrowing: body)
        try run(row)
    }

    /// Removes a node and its reductions.
    ///
    /// - Throws: `StorageError`: a disk error.
    package func removeNode(_ id: IndexNodeID) throws(StorageError) {
        let row = try statements[.deleteNode]
        row.bind(1, id.value)
        try run(row)
        for slot in try knownSlots() { try removeReduction(slot.id, id) }
    }

    /// Removes nodes with this number or a higher one, highest first, at most `countMax`.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: How many were removed; fewer than `countMax` if none is left.
    package func removeNodes(
        from id: IndexNodeID,
        countMax: Int
    ) throws(StorageError) -> Int {
        let rows = try statements[.deleteNodesFrom]
        rows.bind(1, id.value)
        rows.bind(2, countMax)
        return try run(rows)
    }

    /// Stores a value outside its leaf.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func write(_ id: IndexValueID, _ body: ByteView) throws(StorageError) {
        check(body)
        let row = try statements[.writeValue]
        row.bind(1, id.value)
        row.bind(2, IndexChecksum.value(id, body))
        row.bind(3, borrowing: body)
        try run(row)
    }

    /// Removes a value.
    ///
    /// - Throws: `StorageError`: a disk error.
    package func removeValue(_ id: IndexValueID) throws(StorageError) {
        let row = try statements[.deleteValue]
        row.bind(1, id.value)
        try run(row)
    }

    /// Removes values, as `removeNodes(from:countMax:)` removes nodes.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: How many were removed; fewer than `countMax` if none is left.
    package func removeValues(
        from id: IndexValueID,
        countMax: Int
    ) throws(StorageError) -> Int {
        let rows = try statements[.deleteValuesFrom]
        rows.bind(1, id.value)
        rows.bind(2, countMax)
        return try run(rows)
    }

    // MARK: Slots and reductions

    private func knownSlots() throws(StorageError) -> [IndexSlot] {
        if let slots { return slots }
        let found = try reads.slots()
        slots = found
        return found
    }

    /// Adds a slot for a reduce function; its reductions are computed later.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func addSlot(
        signature: String,
        kind: UInt8,
        source: String
    ) throws(StorageError) -> IndexSlot {
        let known = try knownSlots()
        let slot = IndexSlot(
            id: IndexSlotID((known.last?.id.value ?? 0) + 1),
            signature: signature,
            kind: kind,
            source: source
        )
        let row = try statements[.insertSlot]
        row.bind(1, slot.id.value)
        row.bind(2, text: signature)
        row.bind(3, kind)
        row.bind(4, text: source)
        row.bind(5, slot.checksum)
        try run(row)
        slots = known + [slot]
        return slot
    }

    /// Removes at most `countMax` reductions of a slot, and then the slot itself.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: Whether the slot is removed; otherwise call again in a later commit.
    package func removeSlot(_ id: IndexSlotID, countMax: Int) throws(StorageError) -> Bool {
        let rows = try statements[.deleteReductions]
        rows.bind(1, id.value)
        rows.bind(2, countMax)
        guard try run(rows) < countMax else { return false }
        let row = try statements[.deleteSlot]
        row.bind(1, id.value)
        try run(row)
        slots = nil
        return true
    }

    /// Stores a node's reduction.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func writeReduction(
        _ slot: IndexSlotID,
        _ node: IndexNodeID,
        _ body: ByteView
    ) throws(StorageError) {
        check(body)
        let row = try statements[.writeReduction]
        row.bind(1, slot.value)
        row.bind(2, node.value)
        row.bind(3, IndexChecksum.reduction(slot, node, body))
        row.bind(4, borrowing: body)
        try run(row)
    }

    /// Removes a node's reduction.
    ///
    /// - Throws: `StorageError`: a disk error.
    package func removeReduction(
        _ slot: IndexSlotID,
        _ node: IndexNodeID
    ) throws(StorageError) {
        let row = try statements[.deleteReduction]
        row.bind(1, slot.value)
        row.bind(2, node.value)
        try run(row)
    }

    // MARK: Progress, log and faults

    /// Stores the index's progress in a vBucket.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func write(_ vBucket: IndexVBucket) throws(StorageError) {
        let row = try statements[.writeVBucket]
        row.bind(1, vBucket.id.number)
        row.bind(2, vBucket.home.rawValue)
        row.bind(3, vBucket.root.value)
        row.bind(4, vBucket.rows)
        row.bind(5, vBucket.uuid.value)
        row.bind(6, vBucket.seqno.value)
        row.bind(7, vBucket.snapshotStart.value)
        row.bind(8, vBucket.snapshotEnd.value)
        row.bind(9, vBucket.logFloor.value)
        row.bind(10, vBucket.checksum)
        try run(row)
    }

    /// Removes the row of a vBucket, whose rows must not be in any tree.
    ///
    /// - Throws: `StorageError`: a disk error.
    package func removeVBucket(_ id: VBucketID) throws(StorageError) {
        let row = try statements[.deleteVBucket]
        row.bind(1, id.number)
        try run(row)
    }

    /// Stores what this commit changed, for a rollback; one entry per commit.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func writeLogEntry(_ body: ByteView) throws(StorageError) {
        check(body)
        let row = try statements[.insertLog]
        row.bind(1, head.commit.value)
        row.bind(2, IndexChecksum.log(head.commit.value, body))
        row.bind(3, borrowing: body)
        try run(row)
    }

    /// Removes the log entries of this commit and all before it.
    ///
    /// - Throws: `StorageError`: a disk error.
    package func trimLog(through commit: IndexCommit) throws(StorageError) {
        let rows = try statements[.trimLog]
        rows.bind(1, commit.value)
        try run(rows)
    }

    /// Adds a fault and removes the oldest beyond 100.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func add(_ fault: IndexFault) throws(StorageError) {
        let known = try reads.numberedFaults()
        let number = (known.last?.number ?? 0) + 1
        let row = try statements[.insertFault]
        row.bind(1, number)
        row.bind(2, text: fault.view)
        row.bind(3, copying: fault.document)
        row.bind(4, fault.line)
        row.bind(5, text: fault.text)
        row.bind(6, fault.checksum(number: number))
        try run(row)
        guard known.count >= IndexSchema.faultsMax else { return }
        let trim = try statements[.trimFaults]
        trim.bind(1, known[known.count - IndexSchema.faultsMax].number)
        try run(trim)
    }

    // MARK: Compaction

    /// Notes what a compaction leaves in the file until it ends; nil if there is nothing.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func write(_ remains: IndexRemains?) throws(StorageError) {
        let row = try statements[remains == nil ? .deleteMeta : .writeMeta]
        row.bind(1, text: IndexRemains.name)
        if let text = remains?.text {
            row.bind(2, text: text)
            row.bind(3, IndexSchema.checksum(ofMeta: IndexRemains.name, text))
        }
        try run(row)
    }

    /// Removes nodes with lower numbers, lowest first, at most `countMax`.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: How many were removed; fewer than `countMax` if none is left.
    package func removeNodes(
        below id: IndexNodeID,
        countMax: Int
    ) throws(StorageError) -> Int {
        let rows = try statements[.deleteNodesBelow]
        rows.bind(1, id.value)
        rows.bind(2, countMax)
        return try run(rows)
    }

    /// Removes values, as `removeNodes(below:countMax:)` removes nodes.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: How many were removed; fewer than `countMax` if none is left.
    package func removeValues(
        below id: IndexValueID,
        countMax: Int
    ) throws(StorageError) -> Int {
        let rows = try statements[.deleteValuesBelow]
        rows.bind(1, id.value)
        rows.bind(2, countMax)
        return try run(rows)
    }

    /// Removes a slot's reductions of nodes with lower numbers, at most `countMax`.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: How many were removed; fewer than `countMax` if none is left.
    package func removeReductions(
        _ slot: IndexSlotID,
        below id: IndexNodeID,
        countMax: Int
    ) throws(StorageError) -> Int {
        let rows = try statements[.deleteReductionsBelow]
        rows.bind(1, slot.value)
        rows.bind(2, id.value)
        rows.bind(3, countMax)
        return try run(rows)
    }

    // MARK: Runs and space

    /// Stores a chunk of a run; a run's chunks are numbered from 0 and stored in one commit.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func writeChunk(
        _ number: UInt32,
        of run: IndexRunID,
        _ body: ByteView
    ) throws(StorageError) {
        check(body)
        let row = try statements[.insertChunk]
        row.bind(1, run.tree.rawValue)
        row.bind(2, run.number)
        row.bind(3, number)
        row.bind(4, IndexChecksum.chunk(run, number, body))
        row.bind(5, borrowing: body)
        try self.run(row)
    }

    /// Removes chunks of a run, the last first, at most `countMax`.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: How many were removed; fewer than `countMax` if none is left.
    package func removeChunks(of run: IndexRunID, countMax: Int) throws(StorageError) -> Int {
        let rows = try statements[.deleteChunks]
        rows.bind(1, run.tree.rawValue)
        rows.bind(2, run.number)
        rows.bind(3, countMax)
        return try self.run(rows)
    }

    /// Returns at most `countMax` free pages to the file system.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    /// - Returns: The number of free pages that are left in the file.
    package func releaseFreePages(countMax: Int) throws(StorageError) -> Int {
        try reads.connection.execute("PRAGMA incremental_vacuum(\(countMax))")
        return Int(try reads.connection.integer("PRAGMA freelist_count") ?? 0)
    }
}

extension IndexStatements {
    func write(_ head: IndexHead) throws(StorageError) {
        let row = try self[.writeHead]
        row.bind(1, head.commit.value)
        row.bind(2, head.state.rawValue)
        for (first, root) in [(3, head.main), (7, head.back)] as [(Int32, IndexRoot)] {
            row.bind(first, root.node.value)
            row.bind(first + 1, root.height)
            row.bind(first + 2, root.version)
            row.bind(first + 3, root.rows)
        }
        row.bind(11, head.nextNode.value)
        row.bind(12, head.nextValue.value)
        row.bind(13, head.checksum)
        try row.run()
    }
}
