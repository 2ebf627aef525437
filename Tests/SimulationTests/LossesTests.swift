import Simulation
import Testing
import Vocabulary

/// What promotions cost, and what failovers say of it.
@Suite struct LossesTests {
    private let vBucket = VBucketID(3)

    @Test func whatTheChosenCopyDoesNotCoverIsLost() {
        var losses = Losses()
        func promoted(_ bucket: String, _ covered: UInt64, fence: UInt64) {
            let place = losses.place(of: bucket)
            losses.promoted(place, vBucket, fence: fence, covered: Seqno(covered))
        }
        func serves(_ high: UInt64, fence: UInt64) {
            losses.serves(losses.place(of: "a"), vBucket, fence: fence, high: Seqno(high))
        }
        serves(30, fence: 5)
        serves(20, fence: 5)
        promoted("a", 26, fence: 6)
        // It is looked at again and again.
        promoted("a", 26, fence: 6)
        #expect(losses.lost == 4)
        // Of another bucket nothing was known, and a history goes on where the one before ended.
        promoted("b", 1, fence: 6)
        serves(40, fence: 6)
        promoted("a", 40, fence: 7)
        #expect(losses.lost == 4)
    }

    @Test func failoversMaySayLessAndNotMore() {
        var losses = Losses()
        let place = losses.place(of: "a")
        losses.serves(place, vBucket, fence: 5, high: Seqno(30))
        losses.promoted(place, vBucket, fence: 6, covered: Seqno(10))
        func flaw(_ count: Int) -> String? {
            let changes = count == 1 ? "1 change" : "\(count) changes"
            return losses.flaw(
                Losses.told([
                    "Node one was failed over; no change is known to be lost.",
                    "Node two was failed over; at least \(changes) may be lost. More of it.",
                ])
            )
        }
        #expect(flaw(20) == nil && flaw(1) == nil)
        // What came between two looks is not known.
        #expect(flaw(28) == nil)
        #expect(flaw(29) != nil)
    }

    @Test func memoryMayStayBeyondAQuotaThatBecameSmallAndNotGrow() {
        var bound = MemoryBound()
        #expect(bound.look(bytes: 900_000, quota: 1_000_000) == 0)
        #expect(bound.look(bytes: 1_020_000, quota: 1_000_000) == 0)
        #expect(bound.look(bytes: 1_040_000, quota: 1_000_000) == 40_000)
        // Now there is half of what is used.
        #expect(bound.look(bytes: 1_000_000, quota: 500_000) == 0)
        #expect(bound.look(bytes: 1_040_000, quota: 500_000) == 40_000)
        // What has left does not come back.
        #expect(bound.look(bytes: 600_000, quota: 500_000) == 0)
        #expect(bound.look(bytes: 700_000, quota: 500_000) == 100_000)
    }
}
