import Indexing
import Testing

@Suite struct BuildOrderTests {
    @Test func buildsBeyondTheLimitBeginInTheOrderOfTheirRequests() {
        var order = BuildOrder(buildsMax: 2)
        let begun = (1...5).map { order.enter($0) }
        #expect(begun == [true, true, false, false, false])
        let afterSecond = order.leave(2)
        #expect(afterSecond == [3])
        let afterFirst = order.leave(1)
        #expect(afterFirst == [4])
        #expect(order.isBuilding(4) && !order.isBuilding(5))
    }

    @Test func removedWaitingBuildStartsNoOtherBuild() {
        var order = BuildOrder(buildsMax: 1)
        for number: UInt64 in 1...3 { _ = order.enter(number) }
        let afterWaiting = order.leave(2)
        #expect(afterWaiting.isEmpty)
        let afterBuilding = order.leave(1)
        #expect(afterBuilding == [3])
        let afterGone = order.leave(1)
        #expect(afterGone.isEmpty)
    }

    @Test func raisedLimitStartsWaitingBuildsAndLoweredLimitStopsNone() {
        var order = BuildOrder(buildsMax: 1)
        for number: UInt64 in 1...4 { _ = order.enter(number) }
        let raised = order.limit(to: 3)
        #expect(raised == [2, 3])
        let lowered = order.limit(to: 1)
        #expect(lowered.isEmpty && order.isBuilding(3))
        let first = order.leave(1)
        let second = order.leave(2)
        #expect(first.isEmpty && second.isEmpty)
        let third = order.leave(3)
        #expect(third == [4])
    }

    @Test func limitIsAtLeastOne() {
        var order = BuildOrder(buildsMax: 0)
        let isBegun = order.enter(1)
        #expect(isBegun)
    }
}
