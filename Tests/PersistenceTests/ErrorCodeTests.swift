import Persistence
import Testing

/// Temporary shortages have error codes other than damaged or missing files.
@Suite struct ErrorCodeTests {
    private func code(_ result: Int32, _ cause: Int32) -> StorageError.Code {
        SQLiteConnection.code(result, cause: cause)
    }

    private let ioError: Int32 = 10
    private let cannotOpen: Int32 = 14
    /// ENOENT, EIO, EACCES.
    private let others: [Int32] = [0, 2, 5, 13]

    @Test func everySQLiteCodeForNoSpaceIsFull() {
        #expect(code(13, 28) == .full)
        #expect(code(13, 0) == .full)
        // ENOSPC and EDQUOT in a write, a sync, a truncation or the creation of a WAL index.
        for kind in [0, 3, 4, 6, 18, 19, 20, 21] as [Int32] {
            for cause in [28, 122] as [Int32] {
                #expect(code(ioError | kind << 8, cause) == .full, "\(kind), \(cause)")
            }
        }
        // SQLite reports no errno if the WAL index cannot grow.
        #expect(code(ioError | 19 << 8, 0) == .full)
        for kind in [0, 1, 2, 3, 4, 18, 20] as [Int32] {
            for cause in others {
                #expect(code(ioError | kind << 8, cause) == .failed, "\(kind), \(cause)")
            }
        }
    }

    @Test func openWithoutFreeDescriptorIsFullNotMissing() {
        for kind in 0...6 as ClosedRange<Int32> {
            // ENFILE and EMFILE.
            #expect(code(cannotOpen | kind << 8, 23) == .full)
            #expect(code(cannotOpen | kind << 8, 24) == .full)
            for cause in others { #expect(code(cannotOpen | kind << 8, cause) == .missing) }
        }
        // This errno does not belong to this result: it may be left from an earlier call.
        #expect(code(cannotOpen, 28) == .missing)
        #expect(code(ioError, 24) == .failed)
    }

    @Test func staleErrnoDoesNotChangeTheCode() {
        for cause in [23, 24, 28, 122] as [Int32] {
            #expect(code(11, cause) == .damaged)
            #expect(code(26, cause) == .damaged)
            #expect(code(5, cause) == .busy)
            #expect(code(6, cause) == .busy)
            #expect(code(8 | 1 << 8, cause) == .denied)
            #expect(code(1, cause) == .failed)
        }
    }
}
