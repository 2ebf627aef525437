internal import Vocabulary

/// The tables of a lane file, and its identification as a file of Divan.
///
/// docs/storage-format.md explains every column for users of the `sqlite3` shell.
enum Schema {
    /// The schema version; incremented with every change of tables from the first release on.
    ///
    /// Blocks have no version of their own while there is one block format.
    static let number: Int64 = 1
    /// "DVNL".
    static let applicationID: Int64 = 0x4456_4e4c

    /// Settings that must be made before the first table exists.
    static let creationPragmas = """
        PRAGMA page_size = 4096;
        PRAGMA auto_vacuum = INCREMENTAL;
        PRAGMA journal_mode = WAL;
        """

    /// Settings of every connection.
    ///
    /// Memory-mapping is off so that an I/O error is a return code instead of a signal. Secure
    /// deletion, which Debian's SQLite has on by default, would overwrite every removed block.
    static let pragmas = """
        PRAGMA synchronous = FULL;
        PRAGMA secure_delete = OFF;
        PRAGMA mmap_size = 0;
        PRAGMA temp_store = MEMORY;
        PRAGMA cell_size_check = ON;
        PRAGMA foreign_keys = OFF;
        """

    /// An SQL expression for the larger of two unsigned 64-bit numbers, which SQLite stores signed.
    static func unsignedMax(_ one: String, _ other: String) -> String {
        "iif((\(one) < 0) = (\(other) < 0), max(\(one), \(other)), min(\(one), \(other)))"
    }

    static let tables = """
        CREATE TABLE lane(
          id INTEGER PRIMARY KEY CHECK(id = 1),
          bucket TEXT NOT NULL, bucket_uuid TEXT NOT NULL, generation INTEGER NOT NULL,
          lane INTEGER NOT NULL, lanes INTEGER NOT NULL, vbuckets INTEGER NOT NULL,
          clean_stop INTEGER NOT NULL);
        CREATE TABLE vbucket(
          vb INTEGER PRIMARY KEY,
          state INTEGER NOT NULL, high_seqno INTEGER NOT NULL,
          snapshot_start INTEGER NOT NULL, snapshot_end INTEGER NOT NULL,
          purge_seqno INTEGER NOT NULL, max_cas INTEGER NOT NULL, max_revision INTEGER NOT NULL,
          born_block INTEGER NOT NULL,
          fence INTEGER NOT NULL, intact INTEGER NOT NULL);
        CREATE TABLE failover(
          vb INTEGER, position INTEGER, uuid INTEGER NOT NULL, seqno INTEGER NOT NULL,
          fence INTEGER NOT NULL,
          PRIMARY KEY(vb, position)) WITHOUT ROWID;
        CREATE TABLE block(
          id INTEGER PRIMARY KEY,
          origin INTEGER NOT NULL, documents INTEGER NOT NULL, raw_bytes INTEGER NOT NULL,
          runs BLOB NOT NULL);
        CREATE TABLE meta(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
        CREATE TABLE body(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
        CREATE TABLE heat(vb INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
        CREATE TABLE prepares(
          vb INTEGER, seqno INTEGER, level INTEGER NOT NULL,
          cas INTEGER NOT NULL, revision INTEGER NOT NULL, flags INTEGER NOT NULL,
          expiry INTEGER NOT NULL, datatype INTEGER NOT NULL, deleted INTEGER NOT NULL,
          checksum INTEGER NOT NULL, key BLOB NOT NULL, body BLOB NOT NULL,
          PRIMARY KEY(vb, seqno));
        """
}

/// The identity of a lane file, which must match the directory that it is in.
struct LaneIdentity: Hashable {
    let bucket: String
    let bucketUUID: String
    let generation: UInt64
    let lane: Int
    let lanes: Int
    let vBuckets: Int

    /// The seed of every checksum in the file.
    var seal: BlockSeal { BlockSeal(identity: "\(bucketUUID) \(generation) \(lane)") }

    func owns(_ vBucket: UInt16) -> Bool {
        Int(vBucket) < vBuckets && Int(vBucket) % lanes == lane
    }
}

extension SQLiteConnection {
    /// Creates the tables of a new lane file; a file that has tables is not changed.
    func createTables(_ identity: LaneIdentity) throws(StorageError) {
        try execute(Schema.creationPragmas)
        try execute(Schema.pragmas)
        try transaction { () throws(StorageError) in
            guard try integer("SELECT count(*) FROM sqlite_schema") == 0 else { return }
            try execute(Schema.tables)
            let insert = try prepare("INSERT INTO lane VALUES(1, ?, ?, ?, ?, ?, ?, 0)")
            try insert.run(
                identity.bucket,
                identity.bucketUUID,
                identity.generation,
                identity.lane,
                identity.lanes,
                identity.vBuckets
            )
            try execute("PRAGMA application_id = \(Schema.applicationID)")
            try execute("PRAGMA user_version = \(Schema.number)")
        }
    }

    /// Refuses files of other programs and of another format.
    ///
    /// - Parameters:
    ///   - number: The expected `user_version`.
    ///   - application: The expected `application_id`.
    ///   - kind: What the file should be, for the operator.
    /// - Throws: `StorageError`: `.foreign` or `.otherFormat`, with the cure.
    func requireFormat(
        _ number: Int64,
        of application: Int64,
        _ kind: String
    ) throws(StorageError) {
        guard try integer("PRAGMA application_id") == application else {
            throw StorageError(
                .foreign,
                "\(path) is not \(kind) of this version of Divan: another version or another "
                    + "program wrote it. \(Release.formatCure)"
            )
        }
        let found = try integer("PRAGMA user_version") ?? 0
        guard found == number else {
            throw StorageError(
                .otherFormat,
                Release.refusal(of: path, format: Int(found), expected: Int(number))
            )
        }
    }

    /// Refuses files of other programs, of other schemas, and of other lanes or buckets.
    ///
    /// - Returns: Whether the lane was stopped cleanly.
    func checkIdentity(_ identity: LaneIdentity) throws(StorageError) -> Bool {
        try requireFormat(Schema.number, of: Schema.applicationID, "a lane file")
        let lane = try prepare(
            "SELECT bucket_uuid, generation, lane, lanes, vbuckets, clean_stop FROM lane"
        )
        guard try lane.step() else {
            throw StorageError(.damaged, "\(path) is damaged: its lane row is missing")
        }
        defer { lane.reset() }
        guard lane.text(0) == identity.bucketUUID, lane.unsigned(1) == identity.generation,
            lane.integer(2) == identity.lane, lane.integer(3) == identity.lanes,
            lane.integer(4) == identity.vBuckets
        else {
            throw StorageError(
                .foreign,
                "\(path) is lane \(lane.integer(2)) of \(lane.integer(3)), generation "
                    + "\(lane.integer(1)), of bucket \(lane.text(0)) with \(lane.integer(4)) "
                    + "vBuckets, not lane \(identity.lane) of \(identity.lanes), generation "
                    + "\(identity.generation), of bucket \(identity.bucketUUID) with "
                    + "\(identity.vBuckets)"
            )
        }
        return lane.integer(5) == 1
    }
}
