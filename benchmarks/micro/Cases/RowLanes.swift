internal import Bytes
internal import CSQLite
internal import Foundation
internal import Vocabulary

/// The layout to compare with: one row a document, each value compressed alone by LZ4, in files
/// with the product's settings (WAL, FULL, a checkpoint when the WAL exceeds 16 MiB).
///
/// A table by row number, with indices by (vBucket, key) and by (vBucket, seqno), each batch sorted
/// by key: the fastest arrangement of rows that supports the same queries.
final class RowLanes: FlushLanes, @unchecked Sendable {  // tidy:allow each lane is one thread's
    private let documents: FlushDocuments
    private let files: [RowFile]
    private(set) var bytesAfter: UInt64 = 0

    init(_ directory: String, _ documents: FlushDocuments) throws {
        self.documents = documents
        try FileManager.default.createDirectory(
            atPath: directory,
            withIntermediateDirectories: true
        )
        files = try (0..<FlushComparison.lanes).map {
            try RowFile("\(directory)/lane-\($0).sqlite")
        }
    }

    func insert(lane: Int) throws -> [() throws -> Int] {
        documents.inserts(lane: lane, lanes: FlushComparison.lanes).map { draw in
            { [self] in try files[lane].commit(draw(), documents) }
        }
    }

    func overwrite(lane: Int, pass: Int) throws -> [() throws -> Int] {
        documents.overwrites(lane: lane, lanes: FlushComparison.lanes, pass: pass).map { draw in
            { [self] in try files[lane].commit(draw(), documents) }
        }
    }

    func finish() throws {
        for file in files {
            try file.checkpoint(SQLITE_CHECKPOINT_TRUNCATE)
            let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
            bytesAfter += (attributes[.size] as? UInt64) ?? 0
        }
    }
}

/// One file of rows.
private final class RowFile {
    let path: String
    private var database: OpaquePointer?
    private var upsert: OpaquePointer?
    private let compressed = ByteWriter(capacity: 4_096)

    init(_ path: String) throws {
        self.path = path
        try check(
            sqlite3_open_v2(
                path,
                &database,
                SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                nil
            )
        )
        try execute(
            """
            PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
            PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY;
            CREATE TABLE document(id INTEGER PRIMARY KEY, vb INT, key BLOB, seqno INT, cas INT,
                revision INT, flags INT, expiry INT, datatype INT, value BLOB);
            CREATE UNIQUE INDEX by_key ON document(vb, key);
            CREATE INDEX by_seqno ON document(vb, seqno);
            CREATE TABLE vbucket(vb INTEGER PRIMARY KEY, high_seqno INT);
            """
        )
        let statement = """
            INSERT INTO document(vb, key, seqno, cas, revision, flags, expiry, datatype, value)
            VALUES(?1, ?2, ?3, ?4, 1, 0, 0, 1, ?5)
            ON CONFLICT(vb, key) DO UPDATE SET seqno = ?3, cas = ?4, revision = revision + 1,
                value = ?5
            """
        try check(sqlite3_prepare_v2(database, statement, -1, &upsert, nil))
    }

    deinit {
        sqlite3_finalize(upsert)
        sqlite3_close_v2(database)
    }

    /// Writes the changes in one transaction; returns how many.
    func commit(_ changes: [FlushDocuments.Change], _ documents: FlushDocuments) throws -> Int {
        let sorted = changes.sorted { ($0.vBucket, $0.number) < ($1.vBucket, $1.number) }
        try execute("BEGIN IMMEDIATE")
        for change in sorted { try write(change, documents) }
        for (vBucket, of) in Dictionary(grouping: changes, by: \.vBucket) {
            let high = of.map(\.seqno).max() ?? 0
            try execute("INSERT OR REPLACE INTO vbucket VALUES(\(vBucket), \(high))")
        }
        try execute("COMMIT")
        let pages = try walPages()
        if pages > 16_384 {
            try checkpoint(SQLITE_CHECKPOINT_TRUNCATE)
        } else if pages > 4_096 {
            try checkpoint(SQLITE_CHECKPOINT_PASSIVE)
        }
        return changes.count
    }

    private func write(_ change: FlushDocuments.Change, _ documents: FlushDocuments) throws {
        compressed.removeAll()
        documents.values[change.value].withUnsafeBytes { value in
            _ = LZ4.compress(ByteView(value), to: compressed)
        }
        try Samples.key(change.number).withUnsafeBytes { key in
            sqlite3_bind_int64(upsert, 1, Int64(change.vBucket))
            sqlite3_bind_blob(upsert, 2, key.baseAddress, Int32(key.count), nil)
            sqlite3_bind_int64(upsert, 3, Int64(change.seqno))
            sqlite3_bind_int64(upsert, 4, Int64(documents.casOf(change)))
            let view = compressed.view
            sqlite3_bind_blob(upsert, 5, view.start, Int32(view.count), nil)
            guard sqlite3_step(upsert) == SQLITE_DONE else { throw failure }
            sqlite3_reset(upsert)
        }
    }

    /// The pages of the WAL, from the file's size: SQLite reports them only to hooks and
    /// checkpoints.
    private func walPages() throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path + "-wal")
        return Int(((attributes[.size] as? UInt64) ?? 0) / 4_120)
    }

    func checkpoint(_ mode: Int32) throws {
        try check(sqlite3_wal_checkpoint_v2(database, nil, mode, nil, nil))
    }

    private func execute(_ text: String) throws {
        try check(sqlite3_exec(database, text, nil, nil, nil))
    }

    private func check(_ code: Int32) throws { if code != SQLITE_OK { throw failure } }

    private var failure: MicroError {
        let text = database.flatMap { sqlite3_errmsg($0) }.map { String(cString: $0) }
        return MicroError(description: "\(path): \(text ?? "cannot be opened")")
    }
}
