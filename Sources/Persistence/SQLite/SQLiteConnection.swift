internal import Bytes
internal import CSQLite

/// One connection to one SQLite file: a thin layer over the C API.
///
/// A wrapper library costs twice the CPU on insert and more on scan, and the twenty calls
/// needed here fit on a page.
///
/// - Used by one thread at a time (opened without SQLite's own mutex): the owner has a lock.
/// - SQLite never checkpoints by itself; `walPages` is the size of the WAL. Never set the pragma
///   `wal_autocheckpoint`: even at 0 it replaces the WAL hook.
package final class SQLiteConnection {
    /// How the file is opened.
    package enum Mode {
        case create
        case write
        case read
        /// Reads a file that no process has open, without making another file beside it.
        case readClosed
    }

    enum Checkpoint {
        /// Copies what is possible without waiting for readers.
        case passive
        /// Copies everything and truncates the WAL to zero bytes.
        case truncate
    }

    let path: String
    let handle: OpaquePointer
    /// Frames in the WAL, written by SQLite's hook after every commit.
    private let walFrames: UnsafeMutablePointer<Int>

    /// Opens the file with SQLite's VFS named `vfs`; nil for the default one.
    ///
    /// - Throws: `StorageError` if the file cannot be opened.
    package init(path: String, mode: Mode, vfs: String?) throws(StorageError) {
        var handle: OpaquePointer?
        let access =
            switch mode {
            case .create: SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
            case .write: SQLITE_OPEN_READWRITE
            case .read: SQLITE_OPEN_READONLY
            case .readClosed: SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
            }
        let flags = access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        let name = mode == .readClosed ? SQLiteConnection.immutable(path) : path
        let code = sqlite3_open_v2(name, &handle, flags, vfs)
        guard let handle, code == SQLITE_OK else {
            let error = SQLiteConnection.error(code, handle, at: path, during: "open")
            sqlite3_close_v2(handle)
            throw error
        }
        self.path = path
        self.handle = handle
        walFrames = .allocate(capacity: 1)
        walFrames.pointee = 0
        sqlite3_busy_timeout(handle, 2_000)
        sqlite3_wal_hook(
            handle,
            { frames, _, _, count in
                frames?.assumingMemoryBound(to: Int.self).pointee = Int(count)
                return SQLITE_OK
            },
            walFrames
        )
    }

    deinit {
        // Statements may outlive this: SQLite closes the file when the last one is finalized.
        sqlite3_wal_hook(handle, nil, nil)
        sqlite3_close_v2(handle)
        walFrames.deallocate()
    }

    /// The URI of a file that does not change while it is open.
    private static func immutable(_ path: String) -> String {
        let escaped = path.unicodeScalars.map { scalar in
            switch scalar {
            case "%": "%25"
            case "?": "%3f"
            case "#": "%23"
            default: String(scalar)
            }
        }
        return "file:\(escaped.joined())?immutable=1"
    }

    var walPages: Int { walFrames.pointee }

    /// Rows changed by the last statement.
    var changes: Int { Int(sqlite3_changes64(handle)) }

    /// Compiles one SQL statement.
    ///
    /// - Throws: `StorageError` if SQLite rejects the statement or cannot read the schema.
    package func prepare(_ sql: String) throws(StorageError) -> Statement {
        var statement: OpaquePointer?
        let persistent = UInt32(SQLITE_PREPARE_PERSISTENT)
        let code = sqlite3_prepare_v3(handle, sql, -1, persistent, &statement, nil)
        guard let statement, code == SQLITE_OK else { throw error(code, "prepare `\(sql)` for") }
        return Statement(statement, of: self)
    }

    /// Runs SQL without results: pragmas, schema changes, BEGIN and COMMIT.
    ///
    /// - Throws: `StorageError` if SQLite reports an error.
    package func execute(_ sql: String) throws(StorageError) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw error(code, "execute `\(sql)` on") }
    }

    /// The first column of the first row; nil if there is no row.
    ///
    /// - Throws: `StorageError` if SQLite reports an error.
    package func integer(_ sql: String) throws(StorageError) -> Int64? {
        let statement = try prepare(sql)
        guard try statement.step() else { return nil }
        return statement.integer(0)
    }

    /// The first column of every row as text.
    ///
    /// - Throws: `StorageError` if SQLite reports an error.
    package func texts(_ sql: String) throws(StorageError) -> [String] {
        let statement = try prepare(sql)
        var texts: [String] = []
        while try statement.step() { texts.append(statement.text(0)) }
        return texts
    }

    /// Runs `body` in a transaction, which is committed if `body` returns and rolled back if it
    /// throws.
    func transaction<Result>(
        _ body: () throws(StorageError) -> Result
    ) throws(StorageError) -> Result {
        try execute("BEGIN IMMEDIATE")
        do throws(StorageError) {
            let result = try body()
            try execute("COMMIT")
            return result
        } catch {
            // Some errors end the transaction by themselves. If the rollback fails too, the
            // connection must not be used again, and the next BEGIN fails.
            if sqlite3_get_autocommit(handle) == 0 {
                sqlite3_exec(handle, "ROLLBACK", nil, nil, nil)
            }
            throw error
        }
    }

    var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// Copies pages from the WAL to the file; true if all of them were copied.
    @discardableResult
    func checkpoint(_ kind: Checkpoint) throws(StorageError) -> Bool {
        var frames: Int32 = 0
        var copied: Int32 = 0
        let mode = kind == .passive ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE
        let code = sqlite3_wal_checkpoint_v2(handle, nil, mode, &frames, &copied)
        if code & 0xff == SQLITE_BUSY { return false }
        guard code == SQLITE_OK else { throw error(code, "checkpoint the WAL of") }
        if frames == copied { walFrames.pointee = 0 }
        return frames == copied
    }

    func error(_ code: Int32, _ action: String) -> StorageError {
        SQLiteConnection.error(code, handle, at: path, during: action)
    }

    /// SQLITE_READONLY_ROLLBACK: a rollback journal must be undone, and the connection only reads.
    ///
    /// Only new files have such a journal: all others have a WAL.
    private static let readOnlyRollback: Int32 = SQLITE_READONLY | (3 << 8)

    private static func error(
        _ result: Int32,
        _ handle: OpaquePointer?,
        at path: String,
        during action: String
    ) -> StorageError {
        let cause = handle.map { sqlite3_system_errno($0) } ?? 0
        let reason = handle.flatMap { sqlite3_errmsg($0) } ?? sqlite3_errstr(result)
        var text = reason.map { String(cString: $0) } ?? "unknown error"
        if isLackOfDescriptors(result, cause: cause) {
            text += "; no file descriptor is free: raise `ulimit -n`"
        }
        if result == readOnlyRollback {
            text += "; its process ended while it created the file, and its next start completes it"
        }
        return StorageError(
            code(result, cause: cause),
            "cannot \(action) \(path): \(text) (SQLite \(result))"
        )
    }

    /// The error code for SQLite's extended result code and the system's errno (0 for none).
    package static func code(_ result: Int32, cause: Int32) -> StorageError.Code {
        switch result & 0xff {
        case SQLITE_FULL: .full
        case SQLITE_IOERR where isLackOfRoom(result, cause: cause): .full
        case SQLITE_CANTOPEN where isLackOfDescriptors(result, cause: cause): .full
        // Every caller checks the size of what it writes, so a row that is too big is damaged.
        case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_TOOBIG: .damaged
        case SQLITE_BUSY, SQLITE_LOCKED: .busy
        case SQLITE_PERM, SQLITE_READONLY, SQLITE_AUTH: .denied
        case SQLITE_CANTOPEN: .missing
        default: .failed
        }
    }

    /// Whether an I/O error means that the disk is full.
    ///
    /// SQLite reports SQLITE_FULL only for ENOSPC in a write. It reports SQLITE_IOERR for a WAL index
    /// that does not fit, an exceeded quota, and a sync that finds no space.
    private static func isLackOfRoom(_ result: Int32, cause: Int32) -> Bool {
        let indexDoesNotFit: Int32 = SQLITE_IOERR | (19 << 8)
        let (noRoom, overQuota): (Int32, Int32) = (28, 122)  // ENOSPC, EDQUOT
        return result == indexDoesNotFit || cause == noRoom || cause == overQuota
    }

    /// Whether a file cannot be opened because too many files are open.
    private static func isLackOfDescriptors(_ result: Int32, cause: Int32) -> Bool {
        let (ofSystem, ofProcess): (Int32, Int32) = (23, 24)  // ENFILE, EMFILE
        return result & 0xff == SQLITE_CANTOPEN && (cause == ofSystem || cause == ofProcess)
    }
}
