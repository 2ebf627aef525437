import Replication
import Testing

/// How fast copies go beside clients.
@Suite struct CopyPaceTests {
    private static let look: UInt64 = 5_000_000

    /// Looks for so long; by default at a load of 10 000 operations a second.
    private func look(
        _ pace: inout CopyPace,
        milliseconds: UInt64,
        lateness: UInt64,
        operations: UInt64 = 50,
        from start: UInt64
    ) -> UInt64 {
        var now = start
        for _ in 0..<(milliseconds * 1_000_000 / CopyPaceTests.look) {
            now += CopyPaceTests.look
            pace.look(.init(lateness: lateness, operations: operations), now: now)
        }
        return now
    }

    @Test func copiesAreUnlimitedWithoutClientsDespiteLateReactors() {
        var pace = CopyPace(now: 0)
        #expect(pace.room == .max)
        _ = look(&pace, milliseconds: 1_000, lateness: 50_000_000, operations: 0, from: 0)
        #expect(pace.bytesPerSecond == nil)
        pace.sent(1 << 40)
        #expect(pace.room == .max)
    }

    @Test func copyRateGrowsWhileReactorsAreOnTimeAndFallsWhenLate() throws {
        var pace = CopyPace(now: 0)
        var now = look(&pace, milliseconds: 200, lateness: 100_000, from: 0)
        let early = try #require(pace.bytesPerSecond)
        now = look(&pace, milliseconds: 1_000, lateness: 100_000, from: now)
        let fast = try #require(pace.bytesPerSecond)
        #expect(fast > early + 0.8 * CopyPace.growth)
        now = look(&pace, milliseconds: 200, lateness: 4 * CopyPace.latenessMax, from: now)
        let slow = try #require(pace.bytesPerSecond)
        #expect(slow < fast / 2)
        _ = look(&pace, milliseconds: 5_000, lateness: 4 * CopyPace.latenessMax, from: now)
        #expect(pace.bytesPerSecond == CopyPace.bytesPerSecondMin)
    }

    @Test func singleLateSampleDoesNotReduceCopyRate() throws {
        var pace = CopyPace(now: 0)
        let now = look(&pace, milliseconds: 500, lateness: 0, from: 0)
        let before = try #require(pace.bytesPerSecond)
        pace.look(.init(lateness: 3_000_000, operations: 50), now: now + CopyPaceTests.look)
        #expect(try #require(pace.bytesPerSecond) > before)
    }

    @Test func sentBytesUseRoomThatRefillsAtTheCopyRate() throws {
        var pace = CopyPace(now: 0)
        var now = look(&pace, milliseconds: 200, lateness: 0, from: 0)
        let room = pace.room
        #expect(room > 0)
        pace.sent(room + 1_000)
        #expect(pace.room == 0)
        now = look(&pace, milliseconds: 5, lateness: 0, from: now)
        let speed = try #require(pace.bytesPerSecond)
        #expect(abs(Double(pace.room) - speed * 0.005) < 2_000)
        // What was not sent in a while is not sent at once.
        _ = look(&pace, milliseconds: 1_000, lateness: 0, from: now)
        let later = try #require(pace.bytesPerSecond)
        #expect(Double(pace.room) < later * 0.03)
    }

    @Test func copyRateIsUnlimitedAfterClientsStop() {
        var pace = CopyPace(now: 0)
        let now = look(&pace, milliseconds: 200, lateness: 4 * CopyPace.latenessMax, from: 0)
        #expect(pace.bytesPerSecond != nil)
        _ = look(&pace, milliseconds: 2_000, lateness: 0, operations: 0, from: now)
        #expect(pace.room == .max)
    }

    @Test func sampleAtSameTimeIsIgnored() {
        var pace = CopyPace(now: 7)
        pace.look(.init(lateness: 0, operations: 1_000), now: 7)
        #expect(pace.bytesPerSecond == nil)
    }
}
