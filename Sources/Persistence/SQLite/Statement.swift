internal import Bytes
internal import CSQLite

/// A prepared statement, compiled once and run many times.
///
/// - Columns of a row are borrowed from SQLite: valid until the next `step` or `reset`.
/// - Bytes bound with `borrowing` must stay valid until `run` or `reset` returns.
package final class Statement {
    /// Makes SQLite copy bound bytes: C's SQLITE_TRANSIENT, a macro that Swift does not import.
    private static var copies: sqlite3_destructor_type? {
        unsafeBitCast(-1, to: sqlite3_destructor_type?.self)
    }

    private let handle: OpaquePointer
    private let connection: SQLiteConnection

    init(_ handle: OpaquePointer, of connection: SQLiteConnection) {
        self.handle = handle
        self.connection = connection
    }

    deinit { sqlite3_finalize(handle) }

    /// Binds all parameters, in their order.
    func bind<each Value: SQLValue>(_ values: repeat each Value) {
        var index: Int32 = 0
        for value in repeat each values {
            index += 1
            value.bind(to: self, index)
        }
    }

    /// Binds a parameter; as in SQLite, parameters are numbered from 1.
    func bind(_ index: Int32, number: some BinaryInteger) {
        sqlite3_bind_int64(handle, index, Int64(truncatingIfNeeded: number))
    }

    func bind(_ index: Int32, borrowing bytes: ByteView) {
        // No destructor: SQLite neither copies nor frees the bytes.
        sqlite3_bind_blob64(handle, index, bytes.start, UInt64(bytes.count), nil)
    }

    func bind(_ index: Int32, copying bytes: [UInt8]) {
        bytes.withUnsafeBytes { bytes in
            _ = sqlite3_bind_blob64(
                handle,
                index,
                bytes.baseAddress,
                UInt64(bytes.count),
                Statement.copies
            )
        }
    }

    func bind(_ index: Int32, text: String) {
        var text = text
        text.withUTF8 { bytes in
            bytes.withMemoryRebound(to: CChar.self) { characters in
                _ = sqlite3_bind_text(
                    handle,
                    index,
                    characters.baseAddress,
                    Int32(characters.count),
                    Statement.copies
                )
            }
        }
    }

    /// Advances to the next row; false at the end, which resets the statement.
    ///
    /// - Throws: `StorageError` if SQLite reports an error; the statement is reset.
    package func step() throws(StorageError) -> Bool {
        let code = sqlite3_step(handle)
        if code == SQLITE_ROW { return true }
        guard code == SQLITE_DONE else {
            let error = connection.error(code, "read or write")
            sqlite3_reset(handle)
            throw error
        }
        sqlite3_reset(handle)
        return false
    }

    /// Binds all parameters and runs a statement that has no rows.
    func run<each Value: SQLValue>(_ values: repeat each Value) throws(StorageError) {
        bind(repeat each values)
        let hasRow = try step()
        precondition(!hasRow, "`run` is for statements without rows")
    }

    /// Ends reading, and with it an implicit read transaction.
    func reset() { sqlite3_reset(handle) }

    package func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    func unsigned(_ column: Int32) -> UInt64 { UInt64(bitPattern: integer(column)) }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    func bytes(_ column: Int32) -> ByteView {
        guard let start = sqlite3_column_blob(handle, column) else { return .empty }
        return ByteView(start: start, count: Int(sqlite3_column_bytes(handle, column)))
    }

    package func text(_ column: Int32) -> String {
        guard let start = sqlite3_column_text(handle, column) else { return "" }
        return String(cString: start)
    }
}

/// A value of a parameter: a number, text, bytes that SQLite copies, or a view that it borrows.
protocol SQLValue {
    func bind(to statement: Statement, _ index: Int32)
}

extension SQLValue where Self: BinaryInteger {
    func bind(to statement: Statement, _ index: Int32) { statement.bind(index, number: self) }
}

extension Int: SQLValue {}
extension Int64: SQLValue {}
extension UInt8: SQLValue {}
extension UInt16: SQLValue {}
extension UInt32: SQLValue {}
extension UInt64: SQLValue {}

extension String: SQLValue {
    func bind(to statement: Statement, _ index: Int32) { statement.bind(index, text: self) }
}

extension [UInt8]: SQLValue {
    func bind(to statement: Statement, _ index: Int32) { statement.bind(index, copying: self) }
}

extension ByteView: SQLValue {
    func bind(to statement: Statement, _ index: Int32) { statement.bind(index, borrowing: self) }
}
