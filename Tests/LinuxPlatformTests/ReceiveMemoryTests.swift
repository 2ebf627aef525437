import Bytes
import Seams
import Testing

/// Shares of the receive memory, as a table without sockets.
@Suite struct ReceiveMemoryTests {
    /// A receive memory with numbers as holders; a class, since `#expect` cannot mutate values.
    private final class Table {
        private var memory: ReceiveMemory

        /// 100 bytes, claims of 40 at most, 10 bytes of reads ahead.
        init(bytesMax: Int = 100) {
            memory = ReceiveMemory(bytesMax: bytesMax, claimBytesMax: 40, readAheadBytes: 10)
        }

        var bytesMax: Int { memory.bytesMax }
        var heldBytes: Int { memory.heldBytes }
        var waitingCount: Int { memory.waitingCount }
        var allowsReadAhead: Bool { memory.allowsReadAhead }

        func share(of number: UInt64) -> Int { memory.share(of: ReceiveMemory.Holder(number)) }

        func isWaiting(_ number: UInt64) -> Bool { memory.isWaiting(ReceiveMemory.Holder(number)) }

        func tryClaim(_ bytes: Int, for number: UInt64) -> Bool {
            memory.tryClaim(bytes, for: ReceiveMemory.Holder(number))
        }

        func claim(_ bytes: Int, for number: UInt64) -> Bool {
            memory.claim(bytes, for: ReceiveMemory.Holder(number))
        }

        @discardableResult
        func hold(_ bytes: Int, by number: UInt64) -> [UInt64] {
            memory.hold(bytes, by: ReceiveMemory.Holder(number)).map(\.number)
        }
    }

    @Test func claimsAreGrantedUpToTheBound() {
        let memory = Table()
        #expect(memory.claim(40, for: 1))
        #expect(memory.claim(40, for: 2))
        #expect(memory.claim(20, for: 3))
        #expect(memory.heldBytes == 100)
        #expect(!memory.claim(1, for: 4))
        #expect(memory.heldBytes == 100)
        #expect(memory.isWaiting(4))
        #expect(memory.share(of: 4) == 0)
    }

    @Test func smallClaimWaitsBehindALargeOne() {
        let memory = Table()
        #expect(memory.claim(40, for: 1))
        #expect(memory.claim(40, for: 2))
        #expect(!memory.claim(30, for: 3))
        // 20 bytes are free, but the large claim is first in the queue.
        #expect(!memory.claim(5, for: 4))
        #expect(!memory.tryClaim(5, for: 5))
        #expect(memory.waitingCount == 2)
        #expect(memory.hold(0, by: 1) == [3, 4])
        #expect(memory.heldBytes == 75)
        #expect(memory.waitingCount == 0)
    }

    @Test func freedMemoryIsReservedForTheFirstClaim() {
        let memory = Table()
        for number in 1...4 as ClosedRange<UInt64> {
            #expect(memory.claim(25, for: number))
        }
        #expect(!memory.claim(40, for: 5))
        #expect(!memory.claim(10, for: 6))
        #expect(memory.hold(0, by: 2).isEmpty)
        #expect(memory.hold(0, by: 4) == [5, 6])
        #expect(memory.share(of: 5) == 40)
    }

    @Test func removedHolderFreesItsShareAndItsPlace() {
        let memory = Table()
        #expect(memory.claim(40, for: 1))
        #expect(memory.claim(40, for: 2))
        #expect(!memory.claim(40, for: 3))
        #expect(!memory.claim(20, for: 4))
        // The first claim is removed from the queue, and the second one fits.
        #expect(memory.hold(0, by: 3) == [4])
        #expect(memory.hold(0, by: 9).isEmpty)
        #expect(memory.heldBytes == 100)
    }

    @Test func claimIncludesTheHoldersShare() {
        let memory = Table()
        #expect(memory.hold(10, by: 1).isEmpty)
        #expect(memory.claim(40, for: 1))
        #expect(memory.heldBytes == 40)
        #expect(memory.claim(30, for: 1))
        #expect(memory.heldBytes == 40)
    }

    @Test func readAheadLeavesMemoryForTheLargestClaimAndStopsWhileAClaimWaits() {
        let memory = Table()
        #expect(memory.allowsReadAhead)
        memory.hold(50, by: 1)
        #expect(memory.allowsReadAhead)
        memory.hold(51, by: 1)
        #expect(!memory.allowsReadAhead)
        memory.hold(0, by: 1)
        #expect(memory.claim(40, for: 2) && memory.claim(40, for: 3))
        #expect(!memory.claim(30, for: 4))
        memory.hold(0, by: 2)
        #expect(!memory.allowsReadAhead)
        memory.hold(0, by: 3)
        #expect(memory.allowsReadAhead)
    }

    @Test func boundIncludesOneClaimAndAllReadsAhead() {
        let memory = Table(bytesMax: 10)
        #expect(memory.bytesMax == 60)
        #expect(memory.allowsReadAhead)
    }

    /// Connections read ahead, claim, stall and end at random: the bound and the order hold, and
    /// once granted claims end, every waiting claim is granted.
    @Test func randomEventsNeverExceedTheBoundAndEveryClaimIsGranted() {
        for seed in 1...200 as ClosedRange<UInt64> {
            var random = SeededRandom(seed: seed)
            let memory = Table()
            var queue: [UInt64] = []
            var granted: Set<UInt64> = []
            for _ in 0..<300 {
                let one = random.next() % 20
                let isFree = !granted.contains(one) && !queue.contains(one)
                switch random.next() % 4 {
                case 0 where isFree && memory.allowsReadAhead:
                    let bytes = max(memory.share(of: one), Int(random.next() % 6))
                    #expect(memory.hold(bytes, by: one).isEmpty)
                case 1 where isFree, 2 where isFree:
                    let bytes = max(memory.share(of: one), 1 + Int(random.next() % 40))
                    if memory.claim(bytes, for: one) {
                        granted.insert(one)
                    } else {
                        queue.append(one)
                    }
                case 3 where granted.contains(one):
                    granted.remove(one)
                    let resumed = memory.hold(0, by: one)
                    #expect(resumed == Array(queue.prefix(resumed.count)), "seed \(seed)")
                    queue.removeFirst(resumed.count)
                    granted.formUnion(resumed)
                default: break
                }
                #expect(memory.heldBytes <= memory.bytesMax, "seed \(seed)")
                #expect(memory.waitingCount == queue.count, "seed \(seed)")
            }
            while let one = granted.min() {
                granted.remove(one)
                let resumed = memory.hold(0, by: one)
                queue.removeFirst(resumed.count)
                granted.formUnion(resumed)
            }
            #expect(queue.isEmpty, "seed \(seed)")
        }
    }
}

/// Whether a sender makes progress.
@Suite struct SenderPaceTests {
    private static let second: UInt64 = 1_000_000_000

    /// The second, of 200, in which a sender counts as stalled; nil if it never does.
    private func stalls(
        isShort: Bool = false,
        awaitedFrom first: Int = 1,
        received: (Int) -> Int
    ) -> Int? {
        var pace = SenderPace(timeoutNanoseconds: 30 * SenderPaceTests.second)
        for second in 1...200 {
            pace.received(received(second))
            let isStalled = pace.isStalled(
                at: UInt64(second) * SenderPaceTests.second,
                isAwaited: second >= first,
                isShort: isShort
            )
            if isStalled { return second }
        }
        return nil
    }

    @Test func silentSenderStallsAfterTheTimeout() {
        #expect(stalls { _ in 0 } == 31)
        #expect(stalls { $0 <= 10 ? 1 : 0 } == 40)
        #expect(stalls(isShort: true) { _ in 0 } == 31)
    }

    @Test func anyByteIsProgressWhileMemoryIsFree() {
        #expect(stalls { $0 % 29 == 0 ? 1 : 0 } == nil)
    }

    @Test func singleBytesAreNoProgressWhileMemoryIsShort() {
        #expect(stalls(isShort: true) { _ in 1 } == 31)
        // 64 KiB in 29 s.
        #expect(stalls(isShort: true) { _ in (64 << 10) / 29 + 1 } == nil)
    }

    @Test func timeoutStopsWhileTheNodeDoesNotRead() {
        #expect(stalls(awaitedFrom: 201) { _ in 0 } == nil)
        #expect(stalls(awaitedFrom: 101) { _ in 0 } == 130)
        #expect(stalls(isShort: true, awaitedFrom: 101) { _ in 0 } == 130)
    }
}
