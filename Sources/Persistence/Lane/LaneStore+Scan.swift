package import Bytes
package import Vocabulary

/// The position where a scan in file order stopped.
package struct ScanPosition: Hashable, Sendable {
    let block: UInt64

    /// Before the first block.
    package static let start = ScanPosition(block: 0)

    init(block: UInt64) {
        self.block = block
    }

    /// The position after an unreadable block.
    package init(behind damage: BlockDamage) {
        block = damage.block
    }
}

extension LaneStore {
    /// The records of the lane's vBuckets as last committed, by number; empty if the lane has no
    /// file.
    ///
    /// - Throws: `StorageError`: `.damaged` if a record is invalid, or a disk error.
    package func records() throws(StorageError) -> [VBucketRecord] {
        guard exists else { return [] }
        return try readers.scan { (reader) throws(StorageError) in
            try reader.connection.readRecords(identity)
        }
    }

    // MARK: In file order

    /// Visits keys and metadata of the whole lane in file order, for warmup.
    ///
    /// Superseded versions are visited too; the highest seqno of a key is its newest version. A run
    /// that compaction moves during the scan may be visited twice but is never missed.
    ///
    /// - Parameters:
    ///   - position: The start: `.start`, or the result of the previous call.
    ///   - blocksMax: Maximum blocks to read (about 30 documents of 1 KiB each).
    ///   - visit: Called per run; loops over the cursor. Returning false ends the scan.
    /// - Throws: `StorageError`; its `damage` names an unreadable block.
    /// - Returns: The position for the next call; nil at the end, or if `visit` returned false.
    package func scanMetadata(
        from position: ScanPosition,
        blocksMax: Int,
        visit: (VBucketID, MetadataCursor) -> Bool
    ) throws(StorageError) -> ScanPosition? {
        try checkOpen()
        guard exists else { return nil }
        return try readers.scan { (reader) throws(StorageError) in
            let last = try reader.forEachMeta(after: position.block, blocksMax: blocksMax) {
                block in
                for (index, run) in reader.cursor.runs.enumerated() where isCurrent(run, block) {
                    reader.cursor.select(run: index)
                    guard visit(VBucketID(run.vBucket), reader.cursor) else { return false }
                }
                return true
            }
            return last.map(ScanPosition.init(block:))
        }
    }

    /// Visits values of the whole lane in file order, for warmup.
    ///
    /// - Parameters:
    ///   - position: The start: `.start`, or the result of the previous call.
    ///   - blocksMax: Maximum blocks to read.
    ///   - visit: Called per document, superseded versions included. Returning false ends the scan.
    /// - Throws: `StorageError`; its `damage` names an unreadable block.
    /// - Returns: The position for the next call; nil at the end, or if `visit` returned false.
    package func scanValues(
        from position: ScanPosition,
        blocksMax: Int,
        visit: (VBucketID, Seqno, _ value: ByteView) -> Bool
    ) throws(StorageError) -> ScanPosition? {
        try checkOpen()
        guard exists else { return nil }
        return try readers.scan { (reader) throws(StorageError) in
            let last = try reader.forEachBody(after: position.block, blocksMax: blocksMax) {
                block in
                var place = 0
                for run in reader.body.runs {
                    defer { place += run.count }
                    guard isCurrent(run, block) else { continue }
                    for index in place..<place + run.count {
                        let seqno = Seqno(reader.body.seqno(index))
                        let value = reader.body.value(index)
                        guard visit(VBucketID(run.vBucket), seqno, value) else { return false }
                    }
                }
                return true
            }
            return last.map(ScanPosition.init(block:))
        }
    }

    /// Whether the directory has this run in this block; false if the vBucket was dropped or the run
    /// was moved meanwhile.
    private func isCurrent(_ run: BlockRun, _ block: UInt64) -> Bool {
        directory.withLock { $0.block(of: run.first, in: run.vBucket) } == block
    }

    // MARK: One vBucket, by seqno

    /// Visits keys and metadata of one vBucket in ascending seqno, superseded versions included.
    ///
    /// - Parameters:
    ///   - vBucket: The vBucket to scan.
    ///   - seqno: The scan starts after it: `.zero`, or the result of the previous call.
    ///   - blocksMax: Maximum blocks to read.
    ///   - visit: Called per run; the cursor starts after `seqno`. Returning false ends the scan.
    /// - Throws: `StorageError`; its `damage` names an unreadable block.
    /// - Returns: The seqno for the next call; nil at the end, or if `visit` returned false.
    package func scanMetadata(
        _ vBucket: VBucketID,
        after seqno: Seqno,
        blocksMax: Int,
        visit: (MetadataCursor) -> Bool
    ) throws(StorageError) -> Seqno? {
        try walk(vBucket, after: seqno, blocksMax: blocksMax) {
            (reader, block, after) throws(StorageError) in
            guard try reader.openMeta(block) else { return .moved }
            guard reader.cursor.select(vBucket.number, after: after) else { return .moved }
            return visit(reader.cursor) ? .visited : .ended
        }
    }

    /// Visits values of one vBucket in ascending seqno.
    ///
    /// - Parameters:
    ///   - vBucket: The vBucket to scan.
    ///   - seqno: The scan starts after it.
    ///   - blocksMax: Maximum blocks to read.
    ///   - wants: Whether to visit the value at a seqno; a block without a wanted value is not
    ///     decompressed.
    ///   - visit: Called per wanted document. Returning false ends the scan.
    /// - Throws: `StorageError`; its `damage` names an unreadable block.
    /// - Returns: The seqno for the next call; nil at the end, or if `visit` returned false.
    package func scanValues(
        _ vBucket: VBucketID,
        after seqno: Seqno,
        blocksMax: Int,
        wants: (Seqno) -> Bool,
        visit: (Seqno, _ value: ByteView) -> Bool
    ) throws(StorageError) -> Seqno? {
        try walk(vBucket, after: seqno, blocksMax: blocksMax) {
            (reader, block, after) throws(StorageError) in
            var outcome = WalkOutcome.moved
            let isThere = try reader.withBody(block) { (body) throws(StorageError) in
                guard let indexes = body.indexes(of: vBucket.number, after: after) else { return }
                outcome = .visited
                let wanted = indexes.filter { wants(Seqno(body.seqno($0))) }
                guard !wanted.isEmpty else { return }
                guard body.readAll() else { throw reader.damaged(block, .body) }
                for index in wanted where outcome == .visited {
                    if !visit(Seqno(body.seqno(index)), body.value(index)) { outcome = .ended }
                }
            }
            return isThere ? outcome : .moved
        }
    }

    /// Visits whole documents of one vBucket in ascending seqno, for backfill.
    ///
    /// Superseded versions are visited too; the caller's hash table knows which are current.
    ///
    /// - Parameters:
    ///   - vBucket: The vBucket to scan.
    ///   - seqno: The scan starts after it.
    ///   - last: The scan ends with it.
    ///   - bytesMax: Approximate maximum bytes of values to visit.
    ///   - visit: Called per document. Returning false ends the scan.
    /// - Throws: `StorageError`; its `damage` names an unreadable block.
    /// - Returns: The seqno for the next call; nil at the end, or if `visit` returned false.
    package func scanDocuments(
        _ vBucket: VBucketID,
        after seqno: Seqno,
        through last: Seqno,
        bytesMax: Int,
        visit: (DocumentMeta, _ key: ByteView, _ value: ByteView) -> Bool
    ) throws(StorageError) -> Seqno? {
        var bytes = 0
        var isPast = false
        return try walk(
            vBucket,
            after: seqno,
            blocksMax: .max
        ) { (reader, block, after) throws(StorageError) in
            guard bytes < bytesMax else { return .sliceDone }
            guard try reader.openMeta(block), reader.cursor.select(vBucket.number, after: after),
                try reader.openBody(block)
            else { return .moved }
            guard reader.body.runs == reader.cursor.runs else {
                throw reader.damaged(block, .body)
            }
            while !isPast, reader.cursor.next() {
                isPast = reader.cursor.seqno > last
                if isPast { break }
                let value = reader.body.value(reader.cursor.place)
                bytes += value.count
                guard visit(reader.cursor.meta, reader.cursor.key, value) else { return .ended }
            }
            return isPast ? .ended : .visited
        }
    }

    func isHeld(_ seqno: Seqno, in vBucket: VBucketID) -> Bool {
        directory.withLock { $0.isHeld(seqno.value, in: vBucket.number) }
    }

    enum WalkOutcome {
        case visited
        /// The block or run no longer exists: look it up in the directory again.
        case moved
        case ended
        /// Stop before this block.
        case sliceDone
    }

    /// Iterates over the runs of a vBucket in ascending seqno.
    ///
    /// Looks up each run in the directory, so that compaction may move runs meanwhile.
    func walk(
        _ vBucket: VBucketID,
        after seqno: Seqno,
        blocksMax: Int,
        body: (LaneReader, _ block: UInt64, _ after: UInt64) throws(StorageError) -> WalkOutcome
    ) throws(StorageError) -> Seqno? {
        precondition(owns(vBucket), "\(vBucket) is not in lane \(number)")
        try checkOpen()
        guard exists else { return nil }
        return try readers.scan { (reader) throws(StorageError) in
            var last = seqno.value
            var blocks = 0
            var misses = 0
            while blocks < blocksMax {
                let found = directory.withLock { $0.run(after: last, in: vBucket.number) }
                guard let (run, block) = found else { return nil }
                switch try body(reader, block, last) {
                case .visited:
                    last = run.last
                    blocks += 1
                    misses = 0
                case .moved:
                    misses += 1
                    guard misses < 4 else { throw reader.damaged(block, .runs) }
                    // The directory may not contain the last commit yet: wait for the writer.
                    writer.withLock { _ in }
                case .ended:
                    return nil
                case .sliceDone:
                    return Seqno(last)
                }
            }
            return Seqno(last)
        }
    }

    // MARK: Heat

    /// Stores the heat of vBuckets (which documents were in use) for the next warmup.
    ///
    /// Does nothing if the lane has no file.
    ///
    /// - Throws: `StorageError` if the file cannot be written.
    package func saveHeat(_ heat: [(vBucket: VBucketID, bytes: [UInt8])]) throws(StorageError) {
        guard exists else { return }
        try write { (_, lane) throws(StorageError) in
            let insert = try lane.connection.prepare("INSERT OR REPLACE INTO heat VALUES(?, ?)")
            try lane.connection.transaction { () throws(StorageError) in
                for (vBucket, bytes) in heat {
                    try insert.run(vBucket.number, bytes)
                }
            }
        }
    }

    /// The last saved heat of a vBucket; nil if there is none.
    ///
    /// - Throws: `StorageError` if the file cannot be read.
    package func loadHeat(_ vBucket: VBucketID) throws(StorageError) -> [UInt8]? {
        guard exists else { return nil }
        return try readers.scan { (reader) throws(StorageError) in
            let select = try reader.connection.prepare("SELECT bytes FROM heat WHERE vb = ?")
            select.bind(vBucket.number)
            guard try select.step() else { return nil }
            defer { select.reset() }
            return select.bytes(0).bytes
        }
    }
}
