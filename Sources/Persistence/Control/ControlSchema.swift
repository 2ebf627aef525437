internal import Bytes
internal import Vocabulary

/// The tables of `control.sqlite`, and what makes a file one of ours.
///
/// Every row carries a checksum of its own: SQLite finds a torn page, not a flipped bit, and a
/// vote or an entry that is not what was written must never be acted on.
enum ControlSchema {
    static let number: Int64 = 1
    /// "DIVC": a lane file is not taken for it.
    static let applicationID: Int64 = 0x4449_5643
    /// What travels between nodes as one piece, and is read as one row.
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

    /// Makes the tables where there are none, and refuses what is not ours.
    static func prepare(_ connection: Connection) throws(StorageError) {
        try connection.execute(Schema.pragmas)
        if try connection.integer("SELECT count(*) FROM sqlite_schema") == 0 {
            try connection.execute(Schema.creationPragmas)
            try connection.transaction { () throws(StorageError) in
                try connection.execute(tables)
                try connection.execute("PRAGMA application_id = \(applicationID)")
                try connection.execute("PRAGMA user_version = \(number)")
            }
        }
        guard try connection.integer("PRAGMA application_id") == applicationID else {
            throw StorageError(
                .foreign,
                "\(connection.path) is not the control file of Divan: move it away, or name "
                    + "another data directory"
            )
        }
        let version = try connection.integer("PRAGMA user_version") ?? 0
        guard version <= number else {
            throw StorageError(
                .newer,
                "\(connection.path) has schema \(version), written by a later Divan; this one "
                    + "knows schemas up to \(number). Start the later release."
            )
        }
    }

    static func damage(_ path: String, _ what: String) -> StorageError {
        StorageError(
            .damaged,
            "\(path) is damaged: \(what). A node must not forget what it promised: in a cluster, "
                + "fail this node over, eject it, and add it again with an empty data directory; "
                + "alone, restore the whole directory from a backup. Buckets' files are not touched."
        )
    }
}

/// A checksum over the fields of a row, each with a place of its own.
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
