/// The tables of an index file, and its identification as a file of Divan.
///
/// - Every row has a checksum except the rows of `node`: its bodies have their own.
/// - Commits are not synced (`synchronous` NORMAL): a power cut may undo the newest ones, and the
///   rows and the seqnos that they stand for go back together.
enum IndexSchema {
    /// The format number; incremented with every change of tables, and of what nodes contain, from the
    /// first release on.
    ///
    /// An index of another format is built again.
    static let number: Int64 = 1
    /// "DVNI": distinguishes an index file from lane files and the control file.
    static let applicationID: Int64 = 0x4456_4e49
    /// Bytes of the largest row: a value of 16 MiB, and room around it.
    ///
    /// A damaged length beyond it is refused before memory is allocated.
    static let rowBytesMax = 17 << 20
    static let pageBytes: UInt64 = 4_096
    /// Faults kept.
    static let faultsMax = 100

    /// Settings that must be made before the first table exists.
    static let creationPragmas = """
        PRAGMA page_size = \(pageBytes);
        PRAGMA auto_vacuum = INCREMENTAL;
        """

    /// Settings of every connection; see `Schema.pragmas` for the reasons.
    static func pragmas(_ settings: IndexSettings) -> String {
        """
        PRAGMA synchronous = NORMAL;
        PRAGMA secure_delete = OFF;
        PRAGMA mmap_size = 0;
        PRAGMA temp_store = MEMORY;
        PRAGMA cell_size_check = ON;
        PRAGMA foreign_keys = OFF;
        PRAGMA cache_size = -\(max(settings.cacheBytes >> 10, 16));
        PRAGMA journal_size_limit = \(settings.walBytesKept);
        """
    }

    static let tables = """
        CREATE TABLE meta(
          name TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE head(
          id INTEGER PRIMARY KEY CHECK(id = 1),
          commit_no INTEGER NOT NULL, state INTEGER NOT NULL,
          main_root INTEGER NOT NULL, main_height INTEGER NOT NULL,
          main_version INTEGER NOT NULL, main_rows INTEGER NOT NULL,
          back_root INTEGER NOT NULL, back_height INTEGER NOT NULL,
          back_version INTEGER NOT NULL, back_rows INTEGER NOT NULL,
          next_node INTEGER NOT NULL, next_value INTEGER NOT NULL, crc INTEGER NOT NULL);
        CREATE TABLE node(id INTEGER PRIMARY KEY, body BLOB NOT NULL);
        CREATE TABLE vb(
          vb INTEGER PRIMARY KEY,
          home INTEGER NOT NULL, root INTEGER NOT NULL, rows INTEGER NOT NULL,
          uuid INTEGER NOT NULL, seqno INTEGER NOT NULL,
          snap_start INTEGER NOT NULL, snap_end INTEGER NOT NULL,
          log_floor INTEGER NOT NULL, crc INTEGER NOT NULL);
        CREATE TABLE slot(
          id INTEGER PRIMARY KEY, signature TEXT NOT NULL, kind INTEGER NOT NULL,
          source TEXT NOT NULL, crc INTEGER NOT NULL);
        CREATE TABLE red(
          slot INTEGER, node INTEGER, crc INTEGER NOT NULL, body BLOB NOT NULL,
          PRIMARY KEY(slot, node)) WITHOUT ROWID;
        CREATE TABLE big(id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
        CREATE TABLE log(commit_no INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
        CREATE TABLE run(
          tree INTEGER, id INTEGER, chunk INTEGER, crc INTEGER NOT NULL, body BLOB NOT NULL,
          PRIMARY KEY(tree, id, chunk)) WITHOUT ROWID;
        CREATE TABLE err(
          n INTEGER PRIMARY KEY, view TEXT NOT NULL, id BLOB NOT NULL, line INTEGER NOT NULL,
          text TEXT NOT NULL, crc INTEGER NOT NULL);
        """

    /// Creates the tables, the identity and the head of an empty file; refuses other files.
    static func prepare(
        _ connection: SQLiteConnection,
        _ identity: IndexIdentity
    ) throws(StorageError) {
        if try connection.integer("SELECT count(*) FROM sqlite_schema") == 0 {
            try connection.execute(creationPragmas)
            try requireWAL(connection)
            try connection.transaction { () throws(StorageError) in
                try connection.execute(tables)
                try insert(identity, connection)
                try IndexStatements(connection).write(IndexHead())
                try connection.execute("PRAGMA application_id = \(applicationID)")
                try connection.execute("PRAGMA user_version = \(number)")
            }
        } else {
            try checkFormat(connection)
            try requireWAL(connection)
        }
        try check(try IndexReads(connection).identity(), identity, at: connection.path)
    }

    /// Refuses files of other programs and of other formats.
    static func checkFormat(_ connection: SQLiteConnection) throws(StorageError) {
        try connection.requireFormat(number, of: applicationID, "an index file")
    }

    /// Readers beside a writer need the WAL; a file system without shared memory refuses it.
    private static func requireWAL(_ connection: SQLiteConnection) throws(StorageError) {
        let mode = try connection.texts("PRAGMA journal_mode = WAL").first
        guard mode == "wal" else {
            throw StorageError(
                .failed,
                "cannot open \(connection.path): its journal mode is \(mode ?? "unknown"), not WAL"
            )
        }
    }

    private static func insert(
        _ identity: IndexIdentity,
        _ connection: SQLiteConnection
    ) throws(StorageError) {
        let insert = try connection.prepare("INSERT INTO meta VALUES(?, ?, ?)")
        for (name, value) in [
            ("signature", identity.signature), ("collator", identity.collator),
            ("bucket_uuid", identity.bucketUUID), ("map_source", identity.mapSource),
        ] {
            try insert.run(name, value, checksum(ofMeta: name, value))
        }
    }

    static func checksum(ofMeta name: String, _ value: String) -> UInt32 {
        RowChecksum("meta").with(text: name).with(text: value).over()
    }

    private static func check(
        _ found: IndexIdentity,
        _ wanted: IndexIdentity,
        at path: String
    ) throws(StorageError) {
        for (name, found, wanted) in [
            ("signature", found.signature, wanted.signature),
            ("collator version", found.collator, wanted.collator),
            ("bucket UUID", found.bucketUUID, wanted.bucketUUID),
        ] where found != wanted {
            throw StorageError(
                .foreign,
                "\(path) belongs to another index: its \(name) is \(found), not \(wanted)"
            )
        }
        guard found.mapSource == wanted.mapSource else {
            throw StorageError(
                .foreign,
                "\(path) belongs to another index: its map function is another one"
            )
        }
    }

    static func damage(_ path: String, _ what: String) -> StorageError {
        StorageError(.damaged, "\(path) is damaged: \(what)")
    }
}
