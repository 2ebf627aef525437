import Indexing
import Testing
import Vocabulary

/// A merged row that the coordinator cannot show.
@Suite struct RowRejectionTests {
    typealias Course = QueryCoordinationTests

    /// Nodes 1 and 2 with rows 1, 3, 5 and 2, 4, 6; open.
    private func open(
        _ policy: ViewQuery.FailurePolicy = .continueRows
    ) throws -> QueryCoordination {
        var coordination = Course.coordination([1, 2, 1], policy: policy)
        _ = coordination.begin(now: 0)
        for node: UInt16 in [1, 2] {
            Course.reply(Course.started, node, &coordination)
            let rows = try node == 1 ? Course.rows(1, 3, 5) : Course.rows(2, 4, 6)
            Course.reply(rows, node, &coordination)
        }
        return coordination
    }

    private func row(_ coordination: inout QueryCoordination) throws -> MergedRow {
        var next: MergedRow?
        if case .row(let row) = coordination.next() { next = row }
        return try #require(next)
    }

    @Test func rejectedRowEndsThePartOfItsNodeOnly() throws {
        var coordination = try open()
        let first = try row(&coordination)
        #expect(coordination.node(of: first) == NodeNumber(1))
        let second = try row(&coordination)
        #expect(coordination.node(of: second) == NodeNumber(2))
        let actions = coordination.reject(second, because: "It is bad.")
        #expect(actions == [.cancel(node: NodeNumber(2), attempt: 1)])
        #expect(coordination.failures == [Course.failure(2, [1], .invalid("It is bad."))])
        Course.reply(.end, 1, &coordination)
        // 3 and 5, and neither 4 nor 6.
        #expect(Course.rowCount(&coordination) == 2)
        #expect(coordination.reject(second, because: "Again.").isEmpty)
        #expect(coordination.failures.count == 1)
    }

    @Test func rejectedRowOfAnEndedNodeIsNamedToo() throws {
        var coordination = try open()
        for node: UInt16 in [1, 2] { Course.reply(.end, node, &coordination) }
        let first = try row(&coordination)
        _ = coordination.reject(first, because: "It is bad.")
        #expect(coordination.failures == [Course.failure(1, [0, 2], .invalid("It is bad."))])
        #expect(Course.rowCount(&coordination) == 3)
    }

    @Test func lastRowOfABatchCanBeRejected() throws {
        var coordination = try open()
        for _ in 0..<4 { _ = try row(&coordination) }
        let last = try row(&coordination)
        guard case .needsMore([0]) = coordination.next() else {
            Issue.record("node 1 has no row left")
            return
        }
        _ = coordination.reject(last, because: "It is bad.")
        Course.reply(.end, 2, &coordination)
        #expect(Course.rowCount(&coordination) == 1)
        guard case .done = coordination.next() else {
            Issue.record("no row is left")
            return
        }
    }

    @Test func rejectedRowEndsTheRowsIfTheQueryStops() throws {
        var coordination = try open(.stopRows)
        let first = try row(&coordination)
        _ = coordination.reject(first, because: "It is bad.")
        #expect(Course.rowCount(&coordination) == 0)
    }
}
