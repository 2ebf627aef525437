import CSQLite

/// SQLite's integrity check of a file.
enum Integrity {
    /// "ok", or what is wrong.
    static func check(_ path: String, vfs: String?) -> String {
        var handle: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX
        guard sqlite3_open_v2(path, &handle, flags, vfs) == SQLITE_OK else {
            return "cannot be opened"
        }
        defer { sqlite3_close_v2(handle) }
        var statement: OpaquePointer?
        guard
            sqlite3_prepare_v2(handle, "PRAGMA integrity_check", -1, &statement, nil) == SQLITE_OK
        else { return "cannot be checked" }
        defer { sqlite3_finalize(statement) }
        guard sqlite3_step(statement) == SQLITE_ROW, let text = sqlite3_column_text(statement, 0)
        else { return "integrity_check returned no row" }
        return String(cString: text)
    }
}
