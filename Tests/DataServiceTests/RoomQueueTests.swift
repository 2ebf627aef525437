import DataService
import Testing

/// Which write gets the freed room, and how much has to be freed.
@Suite struct RoomQueueTests {
    /// A bucket of 1 000 bytes.
    private let bounds = RoomQueue.Bounds(
        ceiling: 930,
        lowWatermark: 750,
        slack: 10,
        waitingMax: 250
    )
    private var queue = RoomQueue()

    @Test func emptyQueueTargetsLowWatermark() {
        #expect(queue.isEmpty && queue.target(now: 0, bounds) == 750)
        #expect(queue.reserved(now: 0) == 0)
    }

    @Test mutating func targetLeavesRoomForTheOldestWriteAndSlack() {
        #expect(queue.add(100, now: 0, bounds) == 1)
        #expect(queue.target(now: 0, bounds) == 750)
        #expect(queue.add(150, now: 0, bounds) == 2)
        #expect(queue.admit(used: 830, now: 0, bounds) == 1)
        #expect(queue.target(now: 0, bounds) == 750)
        let later = RoomQueue.admissionNanoseconds
        #expect(queue.admit(used: 750, now: later, bounds) == 2)
        #expect(queue.add(300, now: later, bounds) == 3)
        #expect(queue.target(now: later, bounds) == 620)
    }

    @Test mutating func writeNearCeilingTargetsZero() {
        _ = queue.add(925, now: 0, bounds)
        #expect(queue.target(now: 0, bounds) == 0)
    }

    @Test mutating func writeIsAdmittedOnceItFits() {
        _ = queue.add(300, now: 0, bounds)
        #expect(queue.admit(used: 631, now: 0, bounds) == nil)
        #expect(queue.admit(used: 630, now: 0, bounds) == 1)
        #expect(queue.admit(used: 0, now: 0, bounds) == nil)
        #expect(queue.isEmpty)
    }

    @Test mutating func admittedWriteKeepsItsRoomForAWhileAndTheNextOneWaits() {
        _ = queue.add(100, now: 0, bounds)
        _ = queue.add(50, now: 0, bounds)
        #expect(queue.admit(used: 0, now: 5, bounds) == 1)
        let end = 5 + RoomQueue.admissionNanoseconds
        #expect(queue.reserved(now: end - 1) == 100 && queue.isAdmitting(now: end - 1))
        #expect(queue.admit(used: 0, now: end - 1, bounds) == nil)
        #expect(queue.reserved(now: end) == 0 && !queue.isAdmitting(now: end))
        #expect(queue.admit(used: 0, now: end, bounds) == 2)
    }

    @Test mutating func storedWriteKeepsNoRoom() {
        _ = queue.add(100, now: 0, bounds)
        _ = queue.add(50, now: 0, bounds)
        #expect(queue.admit(used: 0, now: 5, bounds) == 1)
        queue.endAdmission()
        #expect(queue.reserved(now: 5) == 0 && !queue.isAdmitting(now: 5))
        #expect(queue.admit(used: 0, now: 5, bounds) == 2)
    }

    @Test mutating func roomIsReservedOnlyAfterAPassDidNotFreeEnough() {
        queue.recordShortPass()
        #expect(queue.reserved(now: 0) == 0)
        _ = queue.add(300, now: 0, bounds)
        #expect(queue.reserved(now: 0) == 0)
        queue.recordShortPass()
        #expect(queue.reserved(now: 0) == 300)
        #expect(queue.expire(now: RoomQueue.timeoutNanoseconds) == [1])
        #expect(queue.reserved(now: RoomQueue.timeoutNanoseconds) == 0)
    }

    @Test mutating func firstWriteMayExceedQueueBoundAndLaterWritesMayNot() {
        #expect(queue.add(400, now: 0, bounds) == 1)
        #expect(queue.add(1, now: 0, bounds) == nil)
        queue = RoomQueue()
        #expect(queue.add(100, now: 0, bounds) == 1)
        #expect(queue.add(150, now: 0, bounds) == 2)
        #expect(queue.add(1, now: 0, bounds) == nil)
    }

    @Test mutating func writeWaitsNoLongerThanTheTimeout() {
        _ = queue.add(100, now: 0, bounds)
        _ = queue.add(100, now: 1, bounds)
        #expect(queue.expire(now: RoomQueue.timeoutNanoseconds - 1) == [])
        #expect(queue.expire(now: RoomQueue.timeoutNanoseconds) == [1])
        #expect(queue.expire(now: RoomQueue.timeoutNanoseconds + 1) == [2])
    }

    @Test mutating func refusedWriteIsRememberedUntilTheTargetIsReachedOrTimeIsOver() {
        _ = queue.add(300, now: 0, bounds)
        let late = RoomQueue.timeoutNanoseconds
        _ = queue.expire(now: late)
        #expect(queue.isEmpty && queue.target(now: late, bounds) == 620)
        let end = late + RoomQueue.memoryNanoseconds
        #expect(queue.target(now: end - 1, bounds) == 620)
        #expect(queue.target(now: end, bounds) == 750)
        queue.forgetRemembered()
        #expect(queue.target(now: late, bounds) == 750)
    }

    @Test mutating func writeThatFoundTheQueueFullIsRememberedAsWell() {
        _ = queue.add(300, now: 0, bounds)
        #expect(queue.add(400, now: 0, bounds) == nil)
        #expect(queue.admit(used: 0, now: 0, bounds) == 1)
        #expect(queue.target(now: 0, bounds) == 520)
    }

    @Test mutating func writesThatCanNeverFitAreRemoved() {
        _ = queue.add(100, now: 0, bounds)
        _ = queue.add(150, now: 0, bounds)
        #expect(queue.waiters.map(\.isDecided) == [false, false])
        #expect(queue.decide(floor: 780, bounds) == [])
        #expect(queue.waiters.map(\.isDecided) == [true, true])
        #expect(queue.decide(floor: 781, bounds) == [2])
        #expect(queue.decide(floor: 830, bounds) == [])
        #expect(queue.decide(floor: 831, bounds) == [1])
        #expect(queue.isEmpty)
    }

    @Test mutating func closingBucketRemovesAllWrites() {
        _ = queue.add(100, now: 0, bounds)
        _ = queue.add(100, now: 0, bounds)
        queue.recordShortPass()
        #expect(queue.removeAll() == [1, 2])
        #expect(queue.isEmpty && queue.reserved(now: 0) == 0)
    }
}
