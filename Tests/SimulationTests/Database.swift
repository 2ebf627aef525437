import CSQLite
import Seams

/// A minimal SQLite database on a simulated disk.
final class Database {
    struct Failure: Error { let code: Int32 }

    private let handle: OpaquePointer?

    init(_ path: String, on environment: Environment) throws {
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        let code = sqlite3_open_v2(path, &opened, flags, environment.disk.vfsName)
        handle = opened
        guard code == SQLITE_OK else { throw Failure(code: code) }
    }

    deinit { sqlite3_close_v2(handle) }

    /// A WAL database whose commits are synced.
    static func durable(_ path: String, on environment: Environment) throws -> Database {
        let database = try Database(path, on: environment)
        try database.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        try database.run("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, text TEXT)")
        return database
    }

    func run(_ sql: String) throws {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw Failure(code: code) }
    }

    func text(_ sql: String) throws -> String {
        var statement: OpaquePointer?
        var code = sqlite3_prepare_v2(handle, sql, -1, &statement, nil)
        guard code == SQLITE_OK else { throw Failure(code: code) }
        defer { sqlite3_finalize(statement) }
        code = sqlite3_step(statement)
        guard code == SQLITE_ROW, let text = sqlite3_column_text(statement, 0) else {
            throw Failure(code: code)
        }
        return String(cString: text)
    }

    /// A statement in the middle of its rows, holding its snapshot until `finish`.
    func begin(_ sql: String) throws -> () -> Void {
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK,
            sqlite3_step(statement) == SQLITE_ROW
        else { throw Failure(code: sqlite3_errcode(handle)) }
        return { sqlite3_finalize(statement) }
    }
}
