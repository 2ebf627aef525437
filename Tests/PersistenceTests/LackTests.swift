import Persistence
import Testing

/// What passes by itself is told from what is wrong with a file.
@Suite struct LackTests {
    private func code(_ result: Int32, _ cause: Int32) -> StorageError.Code {
        Connection.code(result, cause: cause)
    }

    private let ioError: Int32 = 10
    private let cannotOpen: Int32 = 14
    /// ENOENT, EIO, EACCES.
    private let others: [Int32] = [0, 2, 5, 13]

    @Test func aLackOfRoomIsOneWhateverSQLiteCallsIt() {
        #expect(code(13, 28) == .full)
        #expect(code(13, 0) == .full)
        // ENOSPC and EDQUOT, of a write, a sync, a truncation or the making of a WAL's index.
        for kind in [0, 3, 4, 6, 18, 19, 20, 21] as [Int32] {
            for cause in [28, 122] as [Int32] {
                #expect(code(ioError | kind << 8, cause) == .full, "\(kind), \(cause)")
            }
        }
        // The index does not say why it cannot grow.
        #expect(code(ioError | 19 << 8, 0) == .full)
        for kind in [0, 1, 2, 3, 4, 18, 20] as [Int32] {
            for cause in others {
                #expect(code(ioError | kind << 8, cause) == .failed, "\(kind), \(cause)")
            }
        }
    }

    @Test func tooFewDescriptorsAreNoMissingFile() {
        for kind in 0...6 as ClosedRange<Int32> {
            // ENFILE and EMFILE.
            #expect(code(cannotOpen | kind << 8, 23) == .full)
            #expect(code(cannotOpen | kind << 8, 24) == .full)
            for cause in others { #expect(code(cannotOpen | kind << 8, cause) == .missing) }
        }
        // Who is told of a full disk here may have met it before.
        #expect(code(cannotOpen, 28) == .missing)
        #expect(code(ioError, 24) == .failed)
    }

    @Test func causesThatAreLeftFromBeforeMakeNoLack() {
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
