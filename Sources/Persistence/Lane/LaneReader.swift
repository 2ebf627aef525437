internal import Bytes

/// A read connection of a lane, with its statements and decoders.
///
/// Every read is its own transaction and sees the newest commit; readers and the writer never wait
/// for each other (WAL mode).
final class LaneReader {
    let connection: SQLiteConnection
    let cursor = MetadataCursor()
    let body = BodyReader()
    private let seal: BlockSeal
    private let lane: Int
    private let selectMeta: Statement
    private let selectBody: Statement
    private let selectMetas: Statement
    private let selectBodies: Statement
    private let selectRuns: Statement

    init(_ connection: SQLiteConnection, _ identity: LaneIdentity) throws(StorageError) {
        self.connection = connection
        seal = identity.seal
        lane = identity.lane
        selectMeta = try connection.prepare("SELECT bytes FROM meta WHERE id = ?")
        selectBody = try connection.prepare("SELECT bytes FROM body WHERE id = ?")
        selectMetas = try connection.prepare(
            "SELECT id, bytes FROM meta WHERE id > ? ORDER BY id"
        )
        selectBodies = try connection.prepare(
            "SELECT id, bytes FROM body WHERE id > ? ORDER BY id"
        )
        selectRuns = try connection.prepare("SELECT runs FROM block WHERE id = ?")
    }

    /// Decodes the metadata of a block into `cursor`; false if there is no such block.
    func openMeta(_ block: UInt64) throws(StorageError) -> Bool {
        selectMeta.bind(block)
        defer { selectMeta.reset() }
        guard try selectMeta.step() else { return false }
        try decodeMeta(selectMeta.bytes(0), block)
        return true
    }

    /// Decodes the metadata of block after block into `cursor`, in one read transaction.
    ///
    /// Returns the last visited block; nil if there are no more blocks, or `visit` returned false.
    func forEachMeta(
        after block: UInt64,
        blocksMax: Int,
        _ visit: (_ block: UInt64) -> Bool
    ) throws(StorageError) -> UInt64? {
        try forEach(selectMetas, after: block, blocksMax: blocksMax) {
            (block, bytes) throws(StorageError) in
            try decodeMeta(bytes, block)
            return visit(block)
        }
    }

    /// Like `forEachMeta`, but decompresses the values of each block into `body`.
    func forEachBody(
        after block: UInt64,
        blocksMax: Int,
        _ visit: (_ block: UInt64) -> Bool
    ) throws(StorageError) -> UInt64? {
        try forEach(selectBodies, after: block, blocksMax: blocksMax) {
            (block, bytes) throws(StorageError) in
            guard let content = seal.open(bytes, block: block, part: .body), body.open(content),
                body.readAll()
            else { throw damaged(block, .body) }
            return visit(block)
        }
    }

    private func forEach(
        _ rows: Statement,
        after block: UInt64,
        blocksMax: Int,
        body: (UInt64, ByteView) throws(StorageError) -> Bool
    ) throws(StorageError) -> UInt64? {
        rows.bind(block)
        defer { rows.reset() }
        var last = block
        for _ in 0..<blocksMax {
            guard try rows.step() else { return nil }
            let found = rows.unsigned(0)
            guard found > last else { throw unsorted }
            last = found
            guard try body(found, rows.bytes(1)) else { return nil }
        }
        return last
    }

    private func decodeMeta(_ bytes: ByteView, _ block: UInt64) throws(StorageError) {
        guard let content = seal.open(bytes, block: block, part: .meta), cursor.open(content)
        else { throw damaged(block, .meta) }
    }

    /// Appends one value of a block to `writer`.
    ///
    /// - Returns: Whether the block exists and contains the document.
    func readValue(
        _ block: UInt64,
        _ vBucket: UInt16,
        at seqno: UInt64,
        into writer: ByteWriter
    ) throws(StorageError) -> Bool {
        var isFound = false
        let isThere = try withBody(block) { (body) throws(StorageError) in
            guard let index = body.index(of: seqno, in: vBucket) else { return }
            guard body.read(index, into: writer) else { throw damaged(block, .body) }
            isFound = true
        }
        return isThere && isFound
    }

    /// Decompresses all values of a block into `body`; false if there is no such block.
    func openBody(_ block: UInt64) throws(StorageError) -> Bool {
        try withBody(block) { (body) throws(StorageError) in
            guard body.readAll() else { throw damaged(block, .body) }
        }
    }

    /// Opens the values of a block without decompressing them, for the duration of `visit`; false if
    /// there is no such block.
    func withBody(
        _ block: UInt64,
        _ visit: (BodyReader) throws(StorageError) -> Void
    ) throws(StorageError) -> Bool {
        selectBody.bind(block)
        defer { selectBody.reset() }
        guard try selectBody.step() else { return false }
        guard let content = seal.open(selectBody.bytes(0), block: block, part: .body),
            body.open(content)
        else { throw damaged(block, .body) }
        try visit(body)
        return true
    }

    /// A damaged B-tree may return rows out of order, and a scan could then loop forever.
    private var unsorted: StorageError {
        StorageError(.damaged, "\(connection.path) is damaged: it returns blocks out of order")
    }

    /// An error that names the damaged block and part, and the block's runs if its outline is
    /// readable.
    func damaged(_ block: UInt64, _ part: BlockPart) -> StorageError {
        StorageError(
            .damaged,
            "block \(block) of \(connection.path) is damaged: its \(part) part is invalid",
            damage: BlockDamage(lane: lane, block: block, runs: outline(of: block))
        )
    }

    private func outline(of block: UInt64) -> [BlockDamage.Run] {
        selectRuns.bind(block)
        defer { selectRuns.reset() }
        var runs: [BlockRun] = []
        guard (try? selectRuns.step()) == true,
            let content = seal.open(selectRuns.bytes(0), block: block, part: .runs),
            RunTable.readOutline(content, into: &runs)
        else { return [] }
        return runs.map(BlockDamage.Run.init)
    }
}
