import DataService
import Testing

/// When a lane file counts as stalled, as tables.
@Suite struct FlushStallTests {
    private static let second: UInt64 = 1_000_000_000

    /// What happens to a lane, at a time in seconds.
    private enum Step {
        /// The oldest change that waits then, in seconds; whether the lane becomes stalled.
        case check(oldest: UInt64?, at: UInt64, becomesStalled: Bool)
        /// Whether the lane was stalled.
        case commit(at: UInt64, endsStall: Bool)
    }

    private func walk(_ steps: [Step]) -> FlushStall {
        var stall = FlushStall()
        for step in steps {
            switch step {
            case .check(let oldest, let time, let becomesStalled):
                let found = stall.check(
                    oldest: oldest.map { $0 * Self.second },
                    now: time * Self.second
                )
                #expect(found == becomesStalled, "\(step)")
            case .commit(let time, let endsStall):
                let found = stall.committed(at: time * Self.second)
                #expect(found == endsStall, "\(step)")
            }
        }
        return stall
    }

    @Test func changeThatIsNotPersistedForTwoSecondsStallsTheLaneUntilACommit() {
        let stall = walk([
            .check(oldest: nil, at: 9, becomesStalled: false),
            .check(oldest: 10, at: 10, becomesStalled: false),
            .check(oldest: 10, at: 11, becomesStalled: false),
            .check(oldest: 10, at: 12, becomesStalled: true),
            // Reported once.
            .check(oldest: 10, at: 13, becomesStalled: false),
        ])
        #expect(stall.isStalled)
        let released = walk([
            .check(oldest: 10, at: 10, becomesStalled: false),
            .check(oldest: 10, at: 11, becomesStalled: false),
            .check(oldest: 10, at: 12, becomesStalled: true),
            .check(oldest: 10, at: 13, becomesStalled: false),
            .commit(at: 14, endsStall: true),
            .check(oldest: 14, at: 14, becomesStalled: false),
            .commit(at: 15, endsStall: false),
            .check(oldest: 14, at: 15, becomesStalled: false),
            .check(oldest: 14, at: 16, becomesStalled: false),
            .check(oldest: 14, at: 17, becomesStalled: true),
        ])
        #expect(released.isStalled)
    }

    @Test func momentOfAStallIsTwoSecondsAfterTheChangeOrTheLastCommit() {
        var stall = FlushStall()
        #expect(stall.due(oldest: nil) == nil)
        #expect(stall.due(oldest: 10 * Self.second) == 12 * Self.second)
        _ = stall.committed(at: 11 * Self.second)
        #expect(stall.due(oldest: 10 * Self.second) == 13 * Self.second)
    }

    @Test func loadedDiskThatCompletesCommitsIsNotStalled() {
        // The oldest change is always five seconds old, and a commit ends each second.
        let steps = (10..<100).flatMap { (now: UInt64) -> [Step] in
            [
                .commit(at: now, endsStall: false),
                .check(oldest: now - 5, at: now + 1, becomesStalled: false),
            ]
        }
        #expect(!walk(steps).isStalled)
        #expect(walk(steps + [.check(oldest: 95, at: 101, becomesStalled: true)]).isStalled)
    }

    @Test func suspendedProcessDoesNotStallItsLanes() {
        let stall = walk([
            .check(oldest: nil, at: 10, becomesStalled: false),
            .check(oldest: 11, at: 11, becomesStalled: false),
            // Nothing ran for a minute.
            .check(oldest: 11, at: 71, becomesStalled: false),
            .check(oldest: 11, at: 72, becomesStalled: false),
            .check(oldest: 11, at: 73, becomesStalled: true),
        ])
        #expect(stall.isStalled)
    }

    @Test func idleLaneIsNotStalledByItsFirstChange() {
        let stall = walk([
            .commit(at: 1, endsStall: false),
            .check(oldest: nil, at: 1_000, becomesStalled: false),
            .check(oldest: 1_000, at: 1_001, becomesStalled: false),
            .check(oldest: 1_000, at: 1_002, becomesStalled: true),
        ])
        #expect(stall.isStalled)
    }
}
