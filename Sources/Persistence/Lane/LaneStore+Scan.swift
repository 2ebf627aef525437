package import Bytes
package import Vocabulary

/// Where a scan stopped, to go on from there.
package struct ScanPosition: Hashable, Sendable {
    let block: UInt64

    /// Before the first block.
    package static let start = ScanPosition(block: 0)

    init(block: UInt64) {
        self.block = block
    }

    /// Behind a block that cannot be read, once that was reported.
    package init(behind damage: BlockDamage) {
        block = damage.block
    }
}

extension LaneStore {
    /// The vBuckets of the lane as last committed, by number.
    package func records() throws(StorageError) -> [VBucketRecord] {
        guard exists else { return [] }
        return try readers.scan { (reader) throws(StorageError) in
            try reader.connection.readRecords(identity)
        }
    }

    // MARK: In file order

    /// Visits keys and metadata of the whole lane in file order, for warmup.
    ///
    /// Old versions are met too; the higher seqno of a key wins. A run that compaction moves while
    /// the scan goes on may be met twice, never missed.
    ///
    /// - Parameters:
    ///   - position: Where to begin: `.start`, or what the last call returned.
    ///   - blocksMax: How many blocks to read at most (some 30 documents of 1 KiB each).
    ///   - visit: Called per run; loops over the cursor. Returning false ends the scan.
    /// - Throws: What could not be read; a damaged block is named.
    /// - Returns: Where to go on; nil when all was visited, or the visitor had enough.
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
    ///   - position: Where to begin: `.start`, or what the last call returned.
    ///   - blocksMax: How many blocks to read at most.
    ///   - visit: Called per document, old versions too. Returning false ends the scan.
    /// - Throws: What could not be read; a damaged block is named.
    /// - Returns: Where to go on; nil when all was visited, or the visitor had enough.
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

    /// Whether the directory knows this run as this block's: not so where its vBucket was dropped,
    /// or the run was moved meanwhile.
    private func isCurrent(_ run: BlockRun, _ block: UInt64) -> Bool {
        directory.withLock { $0.block(of: run.first, in: run.vBucket) } == block
    }

    // MARK: One vBucket, by seqno

    /// Visits keys and metadata of one vBucket in ascending seqno, old versions too.
    ///
    /// - Parameters:
    ///   - vBucket: Which one.
    ///   - seqno: Begins behind it: `.zero`, or what the last call returned.
    ///   - blocksMax: How many blocks to read at most.
    ///   - visit: Called per run; the cursor starts behind `seqno`. Returning false ends the scan.
    /// - Throws: What could not be read; a damaged block is named.
    /// - Returns: The seqno to go on behind; nil when all was visited, or the visitor had enough.
    package func scanMetadata(
        _ vBucket: VBucketID,
        after seqno: Seqno,
        blocksMax: Int,
        visit: (MetadataCursor) -> Bool
    ) throws(StorageError) -> Seqno? {
        try walk(vBucket, after: seqno, blocksMax) { (reader, block, after) throws(StorageError) in
            guard try reader.openMeta(block) else { return .moved }
            guard reader.cursor.select(vBucket.number, after: after) else { return .moved }
            return visit(reader.cursor) ? .visited : .ended
        }
    }

    /// Visits values of one vBucket in ascending seqno.
    ///
    /// - Parameters:
    ///   - vBucket: Which one.
    ///   - seqno: Begins behind it.
    ///   - blocksMax: How many blocks to read at most.
    ///   - wants: Asked first; a block of which nothing is wanted is not decompressed.
    ///   - visit: Called per wanted document. Returning false ends the scan.
    /// - Throws: What could not be read; a damaged block is named.
    /// - Returns: The seqno to go on behind; nil when all was visited, or the visitor had enough.
    package func scanValues(
        _ vBucket: VBucketID,
        after seqno: Seqno,
        blocksMax: Int,
        wants: (Seqno) -> Bool,
        visit: (Seqno, _ value: ByteView) -> Bool
    ) throws(StorageError) -> Seqno? {
        try walk(vBucket, after: seqno, blocksMax) { (reader, block, after) throws(StorageError) in
            var outcome = WalkOutcome.moved
            let isThere = try reader.withBody(block) { (body) throws(StorageError) in
                guard let places = body.places(of: vBucket.number, after: after) else { return }
                outcome = .visited
                let wanted = places.filter { wants(Seqno(body.seqno($0))) }
                guard !wanted.isEmpty else { return }
                guard body.readAll() else { throw reader.damaged(block, .body) }
                for place in wanted where outcome == .visited {
                    if !visit(Seqno(body.seqno(place)), body.value(place)) { outcome = .ended }
                }
            }
            return isThere ? outcome : .moved
        }
    }

    /// Visits whole documents of one vBucket in ascending seqno, for backfill: old versions too,
    /// the caller's table says which live.
    ///
    /// - Parameters:
    ///   - vBucket: Which one.
    ///   - seqno: Begins behind it.
    ///   - last: Ends with it.
    ///   - bytesMax: How many bytes of values to visit, about.
    ///   - visit: Called per document. Returning false ends the scan.
    /// - Throws: What could not be read; a damaged block is named.
    /// - Returns: The seqno to go on behind; nil when all was visited, or the visitor had enough.
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
            .max
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
        /// The block or run is not there any more: the directory is asked again.
        case moved
        case ended
        /// Stop before this block.
        case sliceDone
    }

    /// Walks the runs of a vBucket in ascending seqno, asking the directory afresh for each, so
    /// that compaction may move them meanwhile.
    func walk(
        _ vBucket: VBucketID,
        after seqno: Seqno,
        _ blocksMax: Int,
        _ body: (LaneReader, _ block: UInt64, _ after: UInt64) throws(StorageError) -> WalkOutcome
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
                    // Committed, but perhaps not yet in the directory: wait for the writer.
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

    /// Keeps what the engine knows of the use of a vBucket's documents, for the next warmup.
    package func saveHeat(_ heat: [(vBucket: VBucketID, bytes: [UInt8])]) throws(StorageError) {
        guard exists else { return }
        try write { (_, lane) throws(StorageError) in
            let insert = try lane.connection.prepare("INSERT OR REPLACE INTO heat VALUES(?, ?)")
            try lane.connection.transaction { () throws(StorageError) in
                for (vBucket, bytes) in heat {
                    insert.bind(1, vBucket.number)
                    insert.bind(2, copying: bytes)
                    try insert.run()
                }
            }
        }
    }

    /// What was last saved of a vBucket's heat; nil where nothing was.
    package func loadHeat(_ vBucket: VBucketID) throws(StorageError) -> [UInt8]? {
        guard exists else { return nil }
        return try readers.scan { (reader) throws(StorageError) in
            let select = try reader.connection.prepare("SELECT bytes FROM heat WHERE vb = ?")
            select.bind(1, vBucket.number)
            guard try select.step() else { return nil }
            defer { select.reset() }
            return select.bytes(0).bytes
        }
    }
}
