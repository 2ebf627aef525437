internal import Bytes

/// The tables of `control.sqlite`, and its identification as a file of Divan.
///
/// Every row has its own checksum: SQLite detects a torn page but not a flipped bit, and a damaged
/// vote or entry must never be used.
enum ControlSchema {
    static let number: Int64 = 1
    /// "DVNK": distinguishes the control file from a lane file, and from one without keys of nodes.
    static let applicationID: Int64 = 0x4456_4e4b
    /// Bytes of a snapshot chunk: one message between nodes, one row on disk.
    static let chunkBytes = 64 << 10

    static let tables = """
        CREATE TABLE hard_state(
          id INTEGER PRIMARY KEY CHECK(id = 1),
          term INTEGER NOT NULL, vote INTEGER NOT NULL, commit_index INTEGER NOT NULL,
          base_term INTEGER NOT NULL, base_index INTEGER NOT NULL, crc INTEGER NOT NULL);
        CREATE TABLE log(
          idx INTEGER PRIMARY KEY,
          term INTEGER NOT NULL, kind INTEGER NOT NULL, bytes BLOB NOT NULL, crc INTEGER NOT NULL);
        CREATE TABLE snapshot(
          id INTEGER PRIMARY KEY,
          is_current INTEGER NOT NULL, term INTEGER NOT NULL, idx INTEGER NOT NULL,
          configuration BLOB NOT NULL, crc INTEGER NOT NULL);
        CREATE TABLE chunk(
          snapshot INTEGER NOT NULL, number INTEGER NOT NULL, is_last INTEGER NOT NULL,
          bytes BLOB NOT NULL, crc INTEGER NOT NULL);
        CREATE UNIQUE INDEX chunk_place ON chunk(snapshot, number);
        CREATE TABLE seal(
          bucket_uuid TEXT, vb INTEGER, fence INTEGER NOT NULL, term INTEGER NOT NULL,
          crc INTEGER NOT NULL, PRIMARY KEY(bucket_uuid, vb)) WITHOUT ROWID;
        CREATE TABLE fact(
          name TEXT PRIMARY KEY, bytes BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
        """

    /// Creates the tables in an empty file; refuses files of other programs and other formats.
    static func prepare(_ connection: SQLiteConnection) throws(StorageError) {
        try connection.execute(Schema.pragmas)
        if try connection.integer("SELECT count(*) FROM sqlite_schema") == 0 {
            try connection.execute(Schema.creationPragmas)
            try connection.transaction { () throws(StorageError) in
                try connection.execute(tables)
                try connection.execute("PRAGMA application_id = \(applicationID)")
                try connection.execute("PRAGMA user_version = \(number)")
            }
        }
        try connection.requireFormat(number, of: applicationID, "the control file")
    }

    static func damage(_ path: String, _ what: String) -> StorageError {
        StorageError(
            .damaged,
            "\(path) is damaged: \(what). A node must not start without its votes and promises. "
                + "In a cluster, fail this node over, eject it and add it again with an empty data "
                + "directory. A single node: restore the whole data directory from a backup. The "
                + "files of the buckets were not changed."
        )
    }
}

/// Builds the checksum of a row from its fields, in order.
struct RowChecksum {
    private let writer = ByteWriter(capacity: 64)

    init(_ table: StaticString) {
        writer.append(table)
    }

    func with(_ number: UInt64) -> RowChecksum {
        writer.append(littleEndian: number)
        return self
    }

    func with(text: String) -> RowChecksum {
        writer.append(littleEndian: UInt64(text.utf8.count))
        writer.append(text: text)
        return self
    }

    func over(_ bytes: ByteView = .empty) -> UInt32 {
        CRC32.checksum(bytes, seed: CRC32.checksum(writer.view))
    }

    func over(_ bytes: [UInt8]) -> UInt32 { bytes.withUnsafeBytes { over(ByteView($0)) } }
}
