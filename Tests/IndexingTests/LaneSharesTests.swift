import Indexing
import Testing

@Suite struct LaneSharesTests {
    @Test func everyIndexUsesSeparateLaneUpToTheLimit() {
        var shares = LaneShares(lanesMax: 3)
        let first = (0..<3).map { _ in shares.acquire() }
        #expect(first.map(\.lane) == [0, 1, 2] && first.allSatisfy(\.isNew))
        let beyond = (0..<4).map { _ in shares.acquire() }
        #expect(beyond.map(\.lane) == [0, 1, 2, 0] && !beyond.contains { $0.isNew })
    }

    @Test func laneEndsWithItsLastIndexAndIsMadeAgain() {
        var shares = LaneShares(lanesMax: 2)
        for _ in 0..<3 { _ = shares.acquire() }
        let ends = [shares.release(0), shares.release(0), shares.release(1)]
        #expect(ends == [false, true, true])
        let next = shares.acquire()
        #expect(next.lane == 0 && next.isNew)
    }

    @Test func leastUsedLaneIsSharedNext() {
        var shares = LaneShares(lanesMax: 2)
        for _ in 0..<4 { _ = shares.acquire() }
        let ends = shares.release(1)
        let next = shares.acquire()
        #expect(!ends && next.lane == 1 && !next.isNew)
    }
}
