import Simulation
import Testing
import Vocabulary

/// Losses of promotions, and the losses that failovers report.
@Suite struct LossesTests {
    private let vBucket = VBucketID(3)

    @Test func promotionLosesWhatTheCopyDoesNotCover() {
        var losses = Losses()
        func promoted(_ bucket: String, _ covered: UInt64, fence: UInt64) {
            let index = losses.index(of: bucket)
            losses.recordPromotion(index, vBucket, fence: fence, covered: Seqno(covered))
        }
        func serves(_ high: UInt64, fence: UInt64) {
            losses.recordActive(losses.index(of: "a"), vBucket, fence: fence, high: Seqno(high))
        }
        serves(30, fence: 5)
        serves(20, fence: 5)
        promoted("a", 26, fence: 6)
        // Repeated observations do not count again.
        promoted("a", 26, fence: 6)
        #expect(losses.lost == 4)
        // Another bucket has no earlier history, and a history without loss continues the previous
        // one.
        promoted("b", 1, fence: 6)
        serves(40, fence: 6)
        promoted("a", 40, fence: 7)
        #expect(losses.lost == 4)
    }

    @Test func failoverThatReportsMoreThanWasLostIsFound() {
        var losses = Losses()
        let index = losses.index(of: "a")
        losses.recordActive(index, vBucket, fence: 5, high: Seqno(30))
        losses.recordPromotion(index, vBucket, fence: 6, covered: Seqno(10))
        func flaw(_ count: Int) -> String? {
            let changes = count == 1 ? "1 change" : "\(count) changes"
            return losses.flaw(
                Losses.reported(in: [
                    "Node one was failed over; no change is known to be lost.",
                    "Node two was failed over; at least \(changes) may be lost. More of it.",
                ])
            )
        }
        #expect(flaw(20) == nil && flaw(1) == nil)
        // Changes between two observations are unknown.
        #expect(flaw(28) == nil)
        #expect(flaw(29) != nil)
    }

    @Test func memoryAboveALoweredQuotaMustNotGrow() {
        var bound = MemoryBound()
        #expect(bound.excess(bytes: 900_000, quota: 1_000_000) == 0)
        #expect(bound.excess(bytes: 1_020_000, quota: 1_000_000) == 0)
        #expect(bound.excess(bytes: 1_040_000, quota: 1_000_000) == 40_000)
        // The quota is lowered to half of the usage.
        #expect(bound.excess(bytes: 1_000_000, quota: 500_000) == 0)
        #expect(bound.excess(bytes: 1_040_000, quota: 500_000) == 40_000)
        // Freed memory must not be used again.
        #expect(bound.excess(bytes: 600_000, quota: 500_000) == 0)
        #expect(bound.excess(bytes: 700_000, quota: 500_000) == 100_000)
    }
}
