import ClusterService
import Testing
import Vocabulary

/// When a node sends what it has of its indexes.
@Suite struct ViewSendingTests {
    private static let nodes = [NodeNumber(2), NodeNumber(3)]
    private static let second: UInt64 = 1_000_000_000

    private static func views(queries: UInt64) -> ViewStatistics {
        var bucket = ViewStatistics.Bucket(name: "b")
        bucket.queries = queries
        var views = ViewStatistics()
        views.buckets = [bucket]
        return views
    }

    @Test func changesAreSentAtOnceAndUnchangedFiguresAfterTheRefreshTime() {
        var sending = ViewSending()
        let own = Self.views(queries: 1)
        var sentAt: [UInt64] = []
        for tick: UInt64 in 0...25 {
            let figures = tick < 13 ? own : Self.views(queries: 2)
            let sent = sending.next(figures, to: Self.nodes, now: tick * Self.second)
            if let sent {
                #expect(sent == figures)
                sentAt.append(tick)
            }
        }
        #expect(sentAt == [0, 10, 13, 23])
    }

    @Test func nodeThatJoinsGetsTheFiguresAtOnce() {
        var sending = ViewSending()
        let own = Self.views(queries: 1)
        _ = sending.next(own, to: [NodeNumber(2)], now: 0)
        let sent = sending.next(own, to: Self.nodes, now: Self.second)
        #expect(sent == own)
    }

    @Test func lastIndexThatIsRemovedIsSentOnce() {
        var sending = ViewSending()
        _ = sending.next(Self.views(queries: 1), to: Self.nodes, now: 0)
        let removed = sending.next(nil, to: Self.nodes, now: Self.second)
        #expect(removed == ViewStatistics())
        let again = sending.next(nil, to: Self.nodes, now: 100 * Self.second)
        #expect(again == nil)
    }

    @Test func nothingIsSentWithoutViewsOrOtherNodes() {
        var sending = ViewSending()
        let withoutViews = sending.next(nil, to: Self.nodes, now: 0)
        let withoutNodes = sending.next(Self.views(queries: 1), to: [], now: 0)
        #expect(withoutViews == nil && withoutNodes == nil)
    }
}
