import Bytes
import Seams
import Testing

/// The next read of one connection, as a table without sockets.
@Suite struct ReceiveAllowanceTests {
    private static let sizes = ReceiveSizes(
        readBytes: 256,
        ownBytes: 64,
        heldBytesMax: 3_000,
        stalledNanoseconds: 30
    )

    private func memory(_ bytesMax: Int = 10_000) -> ConnectionMemory {
        let sizes = ReceiveAllowanceTests.sizes
        return ConnectionMemory(
            receive: sizes.memory(bytesMax, reactors: 1),
            keptBytesMax: bytesMax
        )
    }

    private func allowance(_ memory: ConnectionMemory?) -> ReceiveAllowance {
        ReceiveAllowance(ReceiveAllowanceTests.sizes, memory: memory)
    }

    /// Claims all free memory.
    private func exhaust(_ memory: ConnectionMemory) -> [ReceiveAllowance] {
        var holders: [ReceiveAllowance] = []
        while true {
            var one = allowance(memory)
            let free = memory.usage.receiveBytesMax - memory.usage.receivedBytes
            guard free > 0 else { return holders }
            _ = one.claim(min(free, 2_900), count: 64) {}
            holders.append(one)
        }
    }

    @Test func smallRequestsUseTheReactorsBufferAndClaimNothing() {
        let memory = memory()
        var one = allowance(memory)
        #expect(one.step(count: 0, capacity: 0) == .readShared(256))
        one.chargeReceived(count: 30, consumed: 0, needed: 60)
        #expect(one.step(count: 30, capacity: 30) == .readShared(226))
        one.chargeReceived(count: 0, consumed: 2_000, needed: 24)
        #expect(!one.isTimed)
        #expect(memory.usage.receivedBytes == 0)
    }

    @Test func largeFrameClaimsItsMemoryAtOnceAndFreesItWhenConsumed() {
        let memory = memory()
        var one = allowance(memory)
        one.chargeReceived(count: 200, consumed: 0, needed: 2_000)
        #expect(one.share == 2_000 - 64)
        #expect(one.capacity(for: 200) == 2_000)
        #expect(one.step(count: 200, capacity: 2_000) == .readOwn(capacity: 2_000, most: 1_800))
        // The handler was woken for an earlier request: the frame keeps its memory.
        one.chargeReceived(count: 500, consumed: 0, needed: 0)
        #expect(one.share == 2_000 - 64 && one.needed == 2_000)
        // The frame is complete and its request waits for the disk: buffered bytes stay counted.
        one.chargeReceived(count: 2_000, consumed: 0, needed: 0)
        #expect(one.share == 2_000 - 64)
        #expect(memory.usage.receivedBytes == 2_000 - 64)
        one.chargeReceived(count: 0, consumed: 2_000, needed: 24)
        #expect(one.share == 0)
        #expect(memory.usage.receivedBytes == 0)
    }

    @Test func connectionWithoutMemoryReadsItsOwnBytesAndThenWaits() {
        let memory = memory()
        var others = exhaust(memory)
        var one = allowance(memory)
        #expect(one.step(count: 0, capacity: 0) == .readShared(64))
        one.chargeReceived(count: 30, consumed: 0, needed: 2_000)
        #expect(one.step(count: 30, capacity: 30) == .readOwn(capacity: 64, most: 34))
        #expect(one.step(count: 64, capacity: 64) == .claim(2_000 - 64))
        let resumed = Guarded(false)
        let isGranted = one.claim(2_000 - 64, count: 64) { resumed.withLock { $0 = true } }
        #expect(!isGranted && one.isWaiting && !resumed.withLock { $0 })
        #expect(memory.usage.waitingCount == 1)
        // Waking a handler that consumes nothing does not change the connection's place.
        one.chargeReceived(count: 64, consumed: 0, needed: 2_000)
        #expect(one.isWaiting && memory.usage.waitingCount == 1)
        others[0].end()
        #expect(resumed.withLock { $0 })
        one.update()
        #expect(!one.isWaiting)
        #expect(one.step(count: 64, capacity: 64) == .readOwn(capacity: 2_000, most: 1_936))
    }

    @Test func smallFrameIsReadWithoutMemory() {
        let memory = memory()
        let others = exhaust(memory)
        defer { withExtendedLifetime(others) {} }
        var one = allowance(memory)
        one.chargeReceived(count: 40, consumed: 0, needed: 60)
        #expect(one.step(count: 40, capacity: 40) == .readOwn(capacity: 60, most: 20))
        one.chargeReceived(count: 20, consumed: 0, needed: 60)
        #expect(one.step(count: 20, capacity: 60) == .readShared(44))
    }

    @Test func bytesReadAheadAreCounted() {
        let memory = memory()
        var one = allowance(memory)
        // Pipelined requests after a request that waits.
        one.chargeReceived(count: 250, consumed: 0, needed: 0)
        #expect(one.share == 186)
        one.chargeReceived(count: 100, consumed: 150, needed: 0)
        #expect(one.share == 36)
        one.chargeReceived(count: 64, consumed: 36, needed: 0)
        #expect(one.share == 0)
    }

    @Test func frameOfUnknownLengthClaimsTheMaximum() {
        var one = allowance(memory())
        one.chargeReceived(count: 200, consumed: 0, needed: 0)
        #expect(one.step(count: 200, capacity: 200) == .claim(2_936))
        let isGranted = one.claim(2_936, count: 200) {}
        #expect(isGranted)
        #expect(one.step(count: 200, capacity: 200) == .readOwn(capacity: 400, most: 200))
        #expect(one.step(count: 3_000, capacity: 3_000) == .refuse)
    }

    @Test func connectionThatEndsWhileItWaitsLeavesTheQueue() {
        let memory = memory()
        var others = exhaust(memory)
        var one = allowance(memory)
        one.chargeReceived(count: 64, consumed: 0, needed: 2_000)
        let isGranted = one.claim(1_936, count: 64) {
            Issue.record("an ended connection was resumed")
        }
        #expect(!isGranted)
        one.end()
        #expect(memory.usage.waitingCount == 0)
        for index in others.indices { others[index].end() }
        #expect(memory.usage.receivedBytes == 0)
    }

    @Test func exemptConnectionNeverWaits() {
        let memory = memory()
        let others = exhaust(memory)
        defer { withExtendedLifetime(others) {} }
        var one = allowance(nil)
        #expect(one.step(count: 0, capacity: 0) == .readShared(256))
        one.chargeReceived(count: 250, consumed: 0, needed: 2_000)
        #expect(one.step(count: 250, capacity: 250) == .readOwn(capacity: 2_000, most: 1_750))
        #expect(!one.isTimed)
        one.chargeReceived(count: 250, consumed: 0, needed: 3_001)
        #expect(one.step(count: 250, capacity: 250) == .refuse)
    }

    @Test func onlyAConnectionThatHoldsMemoryAndDoesNotWaitCanStall() {
        let memory = memory()
        var one = allowance(memory)
        one.chargeReceived(count: 60, consumed: 0, needed: 2_000)
        for now in [10, 100, 1_000] as [UInt64] {
            let isStalled = one.isStalled(at: now, isAwaited: true)
            #expect(!isStalled)
        }
        one.chargeReceived(count: 100, consumed: 0, needed: 2_000)
        var isStalled = one.isStalled(at: 2_000, isAwaited: true)
        #expect(!isStalled)
        isStalled = one.isStalled(at: 2_029, isAwaited: true)
        #expect(!isStalled)
        isStalled = one.isStalled(at: 2_030, isAwaited: true)
        #expect(isStalled)
    }
}
