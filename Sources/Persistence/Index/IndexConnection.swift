internal import CSQLite

/// Settings and statistics of connections to index files, beyond those of lane files.
extension SQLiteConnection {
    /// Sets the cache, the sync mode and the largest row of a connection to an index file.
    func prepareForIndex(_ settings: IndexSettings) throws(StorageError) {
        sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, Int32(IndexSchema.rowBytesMax + (64 << 10)))
        try execute(IndexSchema.pragmas(settings))
    }

    /// Bytes that SQLite has allocated for this connection: pages, schema and statements.
    var memoryBytes: Int {
        [SQLITE_DBSTATUS_CACHE_USED, SQLITE_DBSTATUS_SCHEMA_USED, SQLITE_DBSTATUS_STMT_USED]
            .reduce(0) { sum, item in
                var (current, highest): (Int32, Int32) = (0, 0)
                sqlite3_db_status(handle, item, &current, &highest, 0)
                return sum + Int(current)
            }
    }

    /// Copies pages from the WAL to the file without waiting for readers.
    ///
    /// - Returns: The pages in the WAL, and how many of them are in the file.
    func copyWAL() throws(StorageError) -> (pages: Int, copied: Int) {
        var (pages, copied): (Int32, Int32) = (0, 0)
        let mode = SQLITE_CHECKPOINT_PASSIVE
        let code = sqlite3_wal_checkpoint_v2(handle, nil, mode, &pages, &copied)
        guard code == SQLITE_OK else { throw error(code, "checkpoint the WAL of") }
        return (max(0, Int(pages)), max(0, Int(copied)))
    }

    /// Keeps SQLite from copying and removing the WAL when the last connection is closed.
    func keepWAL() { divan_sqlite3_keep_wal(handle) }
}
