import Orchestration
import Testing
import Vocabulary

/// Obstacles that keep vBuckets from being moved, and their timeouts.
@Suite struct RowObstacleTests {
    private let second: UInt64 = 1_000_000_000

    private func obstacle(
        of vBucket: UInt16 = 7,
        failedOver: Set<NodeNumber> = [],
        isAbandoned: Bool = false,
        _ change: (inout VBucketPlacement) -> Void = { _ in }
    ) -> RowObstacle? {
        var placement = VBucketPlacement(chain: [n(1), n(2)], copies: 2, index: 5)
        change(&placement)
        return RowObstacle(
            VBucketID(vBucket),
            placement,
            failedOver: failedOver,
            isAbandoned: isAbandoned
        )
    }

    @Test func obstacleNamesCauseAndNode() {
        func unconfirmed(_ placement: inout VBucketPlacement) {
            placement.isConfirmed = false
            placement.basis = [n(3), n(1)]
        }
        #expect(obstacle() == nil)
        // Another replica replaces it.
        #expect(obstacle(failedOver: [n(2)]) == nil)
        #expect(obstacle(failedOver: [n(1)])?.cause == .unanswered(n(1)))
        #expect(obstacle(failedOver: [n(1)], isAbandoned: true)?.cause == .abandoned(n(1)))
        // No node is failed over: then the flag is outdated.
        #expect(obstacle(isAbandoned: true) == nil)
        #expect(obstacle(unconfirmed)?.cause == .unready(n(1)))
        let gone = obstacle(failedOver: [n(3)], isAbandoned: true, unconfirmed)
        #expect(gone?.cause == .abandoned(n(3)))
        #expect(obstacle { $0.former = n(4) }?.cause == .unwritten(n(1), n(4)))
        let joint = obstacle {
            $0.former = n(4)
            $0.next = [n(2), n(3)]
        }
        #expect(joint == nil)
        #expect(obstacle { $0.chain = [] } == nil)
        let text = gone?.sentence(bucket: "b", naming: { "node \($0.value)" }) ?? ""
        #expect(text.hasPrefix("node 3 was failed over with vBucket 7 of the bucket “b”"))
    }

    @Test func eachVBucketHasItsOwnWaitTime() throws {
        let abandoned = try #require(obstacle(of: 5, failedOver: [n(1)], isAbandoned: true))
        let before = try #require(obstacle(of: 3, failedOver: [n(1)]))
        var waits = RowWaits()
        #expect(waits.take([abandoned], now: 10 * second) == nil)
        // Obstacles of other vBuckets appear and disappear.
        #expect(waits.take([before, abandoned], now: 20 * second) == nil)
        #expect(waits.take([abandoned], now: 29 * second) == nil)
        #expect(waits.take([before, abandoned], now: 30 * second) == abandoned)
        #expect(waits.take([before], now: 31 * second) == nil)
    }

    @Test func waitTimeRestartsAfterAnObstacleIsGone() throws {
        let abandoned = try #require(obstacle(of: 5, failedOver: [n(1)], isAbandoned: true))
        var waits = RowWaits()
        #expect(waits.take([abandoned], now: 10 * second) == nil)
        #expect(waits.take([], now: 25 * second) == nil)
        #expect(waits.take([abandoned], now: 31 * second) == nil)
        #expect(waits.take([abandoned], now: 51 * second) == abandoned)
    }

    /// A copy that is promoted again and again and never becomes ready is not waited for forever.
    @Test func anotherPromotionDoesNotProlongTheWait() throws {
        let first = try #require(obstacle { $0.isConfirmed = false })
        let other = try #require(
            obstacle {
                $0.isConfirmed = false
                $0.chain = [n(2), n(1)]
            }
        )
        var waits = RowWaits()
        let due = Limits.moveStalledMilliseconds / 1_000 * second
        #expect(waits.take([first], now: 0) == nil)
        #expect(waits.take([other], now: due - second) == nil)
        #expect(waits.take([first], now: due) == first)
    }
}
