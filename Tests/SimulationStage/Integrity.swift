import CSQLite

/// SQLite's own judgement of a file.
enum Integrity {
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
        else { return "cannot be asked" }
        defer { sqlite3_finalize(statement) }
        guard sqlite3_step(statement) == SQLITE_ROW, let text = sqlite3_column_text(statement, 0)
        else { return "does not answer" }
        return String(cString: text)
    }
}
