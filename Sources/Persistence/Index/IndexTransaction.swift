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
    private func run<each Value: SQLValue>(
        _ sql: IndexSQL,
        _ values: repeat each Value
    ) throws(StorageError) -> Int {
        try statements[sql].run(repeat each values)
        return reads.connection.changes
    }

    // MARK: Nodes and values

    /// Stores the bytes of a node; replaces its earlier bytes.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func write(_ id: IndexNodeID, _ body: ByteView) throws(StorageError) {
        precondition(id > .none, "a node has a number")
        check(body)
        try run(.writeNode, id.value, body)
    }

    /// Removes a node and its reductions.
    ///
    /// - Throws: `StorageError`: a disk error.
    package func removeNode(_ id: IndexNodeID) throws(StorageError) {
        try run(.deleteNode, id.value)
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
        try run(.deleteNodesFrom, id.value, countMax)
    }

    /// Stores a value outside its leaf.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func write(_ id: IndexValueID, _ body: ByteView) throws(StorageError) {
        check(body)
        try run(.writeValue, id.value, IndexChecksum.value(id, body), body)
    }

    /// Removes a value.
    ///
    /// - Throws: `StorageError`: a disk error.
    package func removeValue(_ id: IndexValueID) throws(StorageError) {
        try run(.deleteValue, id.value)
    }

    /// Removes values, as `removeNodes(from:countMax:)` removes nodes.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: How many were removed; fewer than `countMax` if none is left.
    package func removeValues(
        from id: IndexValueID,
        countMax: Int
    ) throws(StorageError) -> Int {
        try run(.deleteValuesFrom, id.value, countMax)
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
        try run(.insertSlot, slot.id.value, signature, kind, source, slot.checksum)
        slots = known + [slot]
        return slot
    }

    /// Removes at most `countMax` reductions of a slot, and then the slot itself.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: Whether the slot is removed; otherwise call again in a later commit.
    package func removeSlot(_ id: IndexSlotID, countMax: Int) throws(StorageError) -> Bool {
        guard try run(.deleteReductions, id.value, countMax) < countMax else { return false }
        try run(.deleteSlot, id.value)
        slots = nil
        return true
    }

    /// Stores a node's reduction.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func writeReduction(
        _ slot: IndexSlotID,
        _ node: IndexNodeID,
        body: ByteView
    ) throws(StorageError) {
        check(body)
        try run(
            .writeReduction,
            slot.value,
            node.value,
            IndexChecksum.reduction(slot, node, body: body),
            body
        )
    }

    /// Removes a node's reduction.
    ///
    /// - Throws: `StorageError`: a disk error.
    package func removeReduction(
        _ slot: IndexSlotID,
        _ node: IndexNodeID
    ) throws(StorageError) {
        try run(.deleteReduction, slot.value, node.value)
    }

    // MARK: Progress, log and faults

    /// Stores the index's progress in a vBucket.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func write(_ vBucket: IndexVBucket) throws(StorageError) {
        try run(
            .writeVBucket,
            vBucket.id.number,
            vBucket.home.rawValue,
            vBucket.root.value,
            vBucket.rows,
            vBucket.uuid.value,
            vBucket.seqno.value,
            vBucket.snapshotStart.value,
            vBucket.snapshotEnd.value,
            vBucket.logFloor.value,
            vBucket.checksum
        )
    }

    /// Removes the row of a vBucket, whose rows must not be in any tree.
    ///
    /// - Throws: `StorageError`: a disk error.
    package func removeVBucket(_ id: VBucketID) throws(StorageError) {
        try run(.deleteVBucket, id.number)
    }

    /// Stores what this commit changed, for a rollback; one entry per commit.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func writeLogEntry(_ body: ByteView) throws(StorageError) {
        check(body)
        try run(.insertLog, head.commit.value, IndexChecksum.log(head.commit.value, body), body)
    }

    /// Removes the log entries of this commit and all before it.
    ///
    /// - Throws: `StorageError`: a disk error.
    package func trimLog(through commit: IndexCommit) throws(StorageError) {
        try run(.trimLog, commit.value)
    }

    /// Adds a fault and removes the oldest beyond 100.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func add(_ fault: IndexFault) throws(StorageError) {
        let known = try reads.numberedFaults()
        let number = (known.last?.number ?? 0) + 1
        try run(
            .insertFault,
            number,
            fault.view,
            fault.document,
            fault.line,
            fault.text,
            fault.checksum(number: number)
        )
        guard known.count >= IndexSchema.faultsMax else { return }
        try run(.trimFaults, known[known.count - IndexSchema.faultsMax].number)
    }

    // MARK: Compaction

    /// Notes what a compaction leaves in the file until it ends; nil if there is nothing.
    ///
    /// - Throws: `StorageError`: `.full`, or another disk error.
    package func write(_ unfinishedCompaction: UnfinishedCompaction?) throws(StorageError) {
        let name = UnfinishedCompaction.name
        guard let text = unfinishedCompaction?.text else {
            try run(.deleteMeta, name)
            return
        }
        try run(.writeMeta, name, text, IndexSchema.checksum(ofMeta: name, text))
    }

    /// Removes nodes with lower numbers, lowest first, at most `countMax`.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: How many were removed; fewer than `countMax` if none is left.
    package func removeNodes(
        below id: IndexNodeID,
        countMax: Int
    ) throws(StorageError) -> Int {
        try run(.deleteNodesBelow, id.value, countMax)
    }

    /// Removes values, as `removeNodes(below:countMax:)` removes nodes.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: How many were removed; fewer than `countMax` if none is left.
    package func removeValues(
        below id: IndexValueID,
        countMax: Int
    ) throws(StorageError) -> Int {
        try run(.deleteValuesBelow, id.value, countMax)
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
        try run(.deleteReductionsBelow, slot.value, id.value, countMax)
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
        try self.run(
            .insertChunk,
            run.tree.rawValue,
            run.number,
            number,
            IndexChecksum.chunk(run, number, body: body),
            body
        )
    }

    /// Removes chunks of a run, the last first, at most `countMax`.
    ///
    /// - Throws: `StorageError`: a disk error.
    /// - Returns: How many were removed; fewer than `countMax` if none is left.
    package func removeChunks(of run: IndexRunID, countMax: Int) throws(StorageError) -> Int {
        try self.run(.deleteChunks, run.tree.rawValue, run.number, countMax)
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
        try row.run(
            head.commit.value,
            head.state.rawValue,
            head.main.node.value,
            head.main.height,
            head.main.version,
            head.main.rows,
            head.back.node.value,
            head.back.height,
            head.back.version,
            head.back.rows,
            head.nextNode.value,
            head.nextValue.value,
            head.checksum
        )
    }
}
