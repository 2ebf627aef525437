import Bytes
import Engine
import Testing
import Vocabulary

/// How relative times in whole seconds become absolute ones.
@Suite struct ExecutionContextTests {
    /// Nanoseconds into a second at which a request may come.
    static let phases: [UInt64] = [0, 1, 10_000_000, 500_000_000, 990_000_000, 999_999_999]
    private static let second: UInt64 = 1_000_000_000

    private let stage = Stage()

    private func turn(_ wallNanoseconds: UInt64) -> ExecutionContext {
        ExecutionContext(
            wallNanoseconds: wallNanoseconds,
            arena: stage.arena,
            scratch: stage.scratch
        )
    }

    @Test(arguments: ExecutionContextTests.phases)
    func relativeTimeLastsAtLeastItsSecondsAndLessThanOneMore(_ phase: UInt64) {
        let start = 1_700_000_000 * ExecutionContextTests.second + phase
        for seconds: UInt32 in [1, 2, 30, 2_592_000] {
            let end = UInt64(turn(start).end(after: seconds)) * ExecutionContextTests.second
            #expect(end - start >= UInt64(seconds) * ExecutionContextTests.second)
            #expect(end - start < UInt64(seconds + 1) * ExecutionContextTests.second)
        }
    }

    struct Row {
        let now: UInt32
        let phase: UInt64
        let seconds: UInt32
        let end: UInt32
    }

    private static let last = UInt32.max
    static let rows = [
        Row(now: last, phase: 0, seconds: 0, end: last),
        Row(now: last, phase: 1, seconds: 0, end: last),
        Row(now: last - 1, phase: 0, seconds: 1, end: last),
        Row(now: last - 1, phase: 1, seconds: 1, end: last),
        Row(now: last - 10, phase: 5, seconds: 8, end: last - 1),
        Row(now: last - 10, phase: 5, seconds: 9, end: last),
        Row(now: last - 10, phase: 0, seconds: 10, end: last),
        Row(now: last - 10, phase: 0, seconds: 30, end: last),
        Row(now: 1, phase: 0, seconds: last, end: last),
        Row(now: 0, phase: 0, seconds: last, end: last),
        Row(now: 0, phase: 0, seconds: 1, end: 1),
    ]

    @Test(arguments: ExecutionContextTests.rows) func relativeTimeEndsNoLaterThan32Bits(_ row: Row)
    {
        let turn = turn(UInt64(row.now) * ExecutionContextTests.second + row.phase)
        #expect(turn.end(after: row.seconds) == row.end)
    }

    @Test func relativeTimeEndsNoLaterThan32BitsAtTheEndOfTheClock() {
        #expect(turn(.max).end(after: .max) == .max)
    }

    @Test(arguments: ExecutionContextTests.phases)
    func lockLastsAtLeastItsSecondsAndLessThanOneMore(_ phase: UInt64) throws {
        let vBucket = try #require(stage.bucket()[0])
        let (name, hash) = (key(1), stage.hash(of: key(1)))
        _ = stage.store(vBucket, name, [1])
        let start = UInt64(stage.seconds) * ExecutionContextTests.second + phase
        func lock(at time: UInt64) -> ReadResult {
            viewing(name) { view in
                vBucket.withCore {
                    $0.getAndLock(view, hash: hash, seconds: 2, turn(time))
                }
            }
        }
        func isLocked(at time: UInt64) -> Bool {
            if case .refused(.locked) = lock(at: time) { true } else { false }
        }
        guard case .done = lock(at: start) else {
            Issue.record("the document is not locked yet")
            return
        }
        #expect(isLocked(at: start + 2 * ExecutionContextTests.second - 1))
        #expect(!isLocked(at: start + 3 * ExecutionContextTests.second - 1))
    }

    @Test func lockNearTheEndOf32BitsDoesNotWrap() throws {
        let vBucket = try #require(stage.bucket()[0])
        let (name, hash) = (key(1), stage.hash(of: key(1)))
        stage.seconds = .max - 2
        stage.nanoseconds = 1
        _ = stage.store(vBucket, name, [1])
        viewing(name) { view in
            vBucket.withCore { core in
                let turn = stage.turn
                guard case .done = core.getAndLock(view, hash: hash, seconds: 30, turn),
                    case .refused(.locked) = core.getAndLock(view, hash: hash, seconds: 30, turn)
                else {
                    Issue.record("the lock was over at once")
                    return
                }
            }
        }
    }
}
