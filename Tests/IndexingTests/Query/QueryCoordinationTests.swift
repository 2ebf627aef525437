import Indexing
import Testing
import Vocabulary

@Suite struct QueryCoordinationTests {
    typealias Action = QueryCoordination.Action

    static let deadline: UInt64 = 60_000

    /// Node numbers by vBucket; 0 for none.
    static func map(_ revision: UInt64, _ actives: [UInt16]) -> QueryCoordination.ServingMap {
        QueryCoordination.ServingMap(
            revision: revision,
            actives: actives.map { $0 == 0 ? nil : NodeNumber($0) }
        )
    }

    static func coordination(
        _ actives: [UInt16],
        policy: ViewQuery.FailurePolicy = .continueRows,
        allowsPreviousIndex: Bool = false,
        restartsUntil: UInt64 = deadline
    ) -> QueryCoordination {
        var terms = QueryCoordination.Terms(
            deadline: deadline,
            merge: MergePlan(failurePolicy: policy),
            previousMerge: allowsPreviousIndex ? MergePlan(failurePolicy: policy) : nil
        )
        terms.restartsUntil = restartsUntil
        return QueryCoordination(terms, map: map(1, actives))
    }

    static func sends(_ actions: [Action]) -> [QueryCoordination.Dispatch] {
        actions.compactMap { if case .send(let dispatch) = $0 { dispatch } else { nil } }
    }

    static let started = QueryReply.start(QueryStart(indexRows: 10))

    static func rows(_ numbers: Int...) throws -> QueryReply {
        .rows(try RowBatch.of(numbers.map { TestRow(key: StandInKeys.rowKey("\($0)", id: "d")) }))
    }

    /// Sends a reply of a node to the current attempt.
    @discardableResult
    static func reply(
        _ reply: QueryReply,
        _ node: UInt16,
        _ coordination: inout QueryCoordination,
        now: UInt64 = 0
    ) -> [Action] {
        let attempt = coordination.attempt
        return coordination.handle(reply, from: NodeNumber(node), attempt: attempt, now: now)
    }

    static func rowCount(_ coordination: inout QueryCoordination) -> Int {
        var count = 0
        while case .row = coordination.next() { count += 1 }
        return count
    }

    static func failure(
        _ node: UInt16,
        _ vBuckets: [UInt16],
        _ cause: QueryFailure.Cause
    ) -> QueryFailure {
        QueryFailure(
            node: node == 0 ? nil : NodeNumber(node),
            vBuckets: vBuckets.map { VBucketID($0) },
            cause: cause
        )
    }

    // MARK: The usual course

    @Test func everyVBucketIsAskedOfItsActiveNode() {
        var coordination = Self.coordination([1, 2, 1, 0])
        let dispatches = Self.sends(coordination.begin(now: 0))
        #expect(dispatches.map(\.node.value) == [1, 2])
        #expect(dispatches.map { $0.vBuckets.map(\.number) } == [[0, 2], [1]])
        #expect(dispatches.allSatisfy { $0.attempt == 1 && $0.mapRevision == 1 })
    }

    @Test func queryOpensWhenAllNodesHaveStarted() throws {
        var coordination = Self.coordination([1, 2])
        _ = coordination.begin(now: 0)
        #expect(Self.reply(Self.started, 1, &coordination).isEmpty)
        #expect(Self.reply(try Self.rows(1), 1, &coordination).isEmpty)
        #expect(coordination.next() == nil)
        #expect(Self.reply(Self.started, 2, &coordination) == [.open(totalRows: 20)])
        guard case .needsMore([1]) = coordination.next() else {
            Issue.record("node 2 has sent nothing yet")
            return
        }
        Self.reply(try Self.rows(2), 2, &coordination)
        Self.reply(.end, 1, &coordination)
        Self.reply(.end, 2, &coordination)
        #expect(Self.rowCount(&coordination) == 2)
        #expect(coordination.failures.isEmpty && coordination.close().isEmpty)
    }

    @Test func creditIsForNodesThatStillSend() throws {
        var coordination = Self.coordination([1, 2])
        _ = coordination.begin(now: 0)
        for node: UInt16 in [1, 2] {
            Self.reply(Self.started, node, &coordination)
            Self.reply(try Self.rows(Int(node)), node, &coordination)
        }
        Self.reply(.end, 2, &coordination)
        _ = Self.rowCount(&coordination)
        #expect(coordination.removeCredits() == [NodeNumber(1)])
    }

    @Test func closedQueryCancelsNodesThatStillSend() {
        var coordination = Self.coordination([1, 2])
        _ = coordination.begin(now: 0)
        Self.reply(Self.started, 1, &coordination)
        Self.reply(Self.started, 2, &coordination)
        Self.reply(.end, 1, &coordination)
        #expect(coordination.close() == [.cancel(node: NodeNumber(2), attempt: 1)])
        #expect(Self.reply(.end, 2, &coordination).isEmpty && coordination.close().isEmpty)
    }

    // MARK: Restarts

    @Test func movedVBucketRestartsTheQueryWithTheNewerMap() throws {
        var coordination = Self.coordination([1, 2])
        _ = coordination.begin(now: 0)
        Self.reply(Self.started, 1, &coordination)
        Self.reply(try Self.rows(1), 1, &coordination)
        #expect(
            Self.reply(.moved(2), 2, &coordination, now: 100) == [
                .cancel(node: NodeNumber(1), attempt: 1), .cancel(node: NodeNumber(2), attempt: 1),
                .wake(at: 110),
            ]
        )
        #expect(coordination.adopt(Self.map(2, [1, 1]), now: 105).isEmpty)
        #expect(coordination.advance(now: 109) == [.wake(at: 110)])
        let dispatches = Self.sends(coordination.advance(now: 110))
        #expect(dispatches.map { $0.vBuckets.map(\.number) } == [[0, 1]])
        #expect(dispatches.map(\.attempt) == [2] && dispatches.map(\.mapRevision) == [2])
        // A late reply to the first attempt.
        let late = coordination.handle(Self.started, from: NodeNumber(1), attempt: 1, now: 111)
        #expect(late.isEmpty)
        #expect(Self.reply(Self.started, 1, &coordination) == [.open(totalRows: 10)])
        Self.reply(.end, 1, &coordination)
        #expect(Self.rowCount(&coordination) == 0, "rows of the first attempt are discarded")
        #expect(coordination.failures.isEmpty)
    }

    @Test func movedVBucketRestartsQueryWithGrowingPausesThenIsMissing() {
        var coordination = Self.coordination([1, 2], restartsUntil: 20_000)
        _ = coordination.begin(now: 0)
        var now: UInt64 = 0
        for pause: UInt64 in [10, 20, 40, 80, 160, 320, 500, 500, 500] {
            let actions = Self.reply(.moved(9), 2, &coordination, now: now)
            #expect(actions.last == .wake(at: now + pause))
            now += pause
            let dispatches = Self.sends(coordination.advance(now: now))
            #expect(dispatches.count == 2)
        }
        let late = Self.reply(.moved(9), 2, &coordination, now: 20_000)
        #expect(late.isEmpty)
        let opened = Self.reply(Self.started, 1, &coordination, now: 20_001)
        #expect(opened == [.open(totalRows: 10)])
        #expect(coordination.failures == [Self.failure(2, [1], .moved)])
    }

    /// A failover may need seconds to promote a copy; rows of the other nodes are worth more than a
    /// last attempt.
    @Test(arguments: [
        (ViewQuery.Freshness.current, 60_000 as UInt64, 15_000 as UInt64),
        (.current, 80, 70), (.updateAfter, 60_000, 2_000), (.any, 60_000, 2_000), (.any, 80, 70),
        (.current, 0, 0),
    ])
    func restartsEndBeforeTheDeadline(
        _ freshness: ViewQuery.Freshness,
        _ span: UInt64,
        _ restarts: UInt64
    ) {
        var terms = QueryCoordination.Terms(deadline: 1_000 + span, merge: MergePlan())
        terms.limitRestarts(freshness, now: 1_000)
        #expect(terms.restartsUntil == 1_000 + restarts)
    }

    @Test func deadlineDuringAPauseOpensWithoutRows() {
        var coordination = Self.coordination([1, 2])
        _ = coordination.begin(now: 0)
        let now = Self.deadline - 3
        #expect(Self.reply(.moved(9), 2, &coordination, now: now).last == .wake(at: Self.deadline))
        #expect(coordination.advance(now: Self.deadline) == [.open(totalRows: 0)])
        #expect(coordination.failures == [Self.failure(0, [0, 1], .moved)])
        #expect(Self.rowCount(&coordination) == 0)
    }

    @Test func lostNodeIsReplacedByNodeOfNewerMap() {
        var coordination = Self.coordination([1, 2])
        _ = coordination.begin(now: 0)
        Self.reply(Self.started, 1, &coordination)
        let lost = coordination.lose(NodeNumber(2), attempt: 1, because: "reset", now: 100)
        #expect(lost == [.wake(at: 5_100)])
        let actions = coordination.adopt(Self.map(2, [1, 1]), now: 200)
        #expect(actions == [.cancel(node: NodeNumber(1), attempt: 1), .wake(at: 210)])
        #expect(Self.sends(coordination.advance(now: 210)).count == 1)
    }

    /// A newer map has no effect after the restarts.
    ///
    /// Regression: each query waited 5 s while a node was down.
    @Test(arguments: [(deadline, 5_100), (2_000, 2_000)] as [(UInt64, UInt64)])
    func lostNodeWithoutANewerMapIsMissing(restartsUntil: UInt64, missingAt: UInt64) {
        var coordination = Self.coordination([1, 2], restartsUntil: restartsUntil)
        _ = coordination.begin(now: 0)
        Self.reply(Self.started, 1, &coordination)
        let lost = coordination.lose(NodeNumber(2), attempt: 1, because: "reset", now: 100)
        #expect(lost == [.wake(at: missingAt)])
        #expect(coordination.advance(now: missingAt - 1).isEmpty)
        #expect(coordination.advance(now: missingAt) == [.open(totalRows: 10)])
        #expect(coordination.failures == [Self.failure(2, [1], .lost("reset"))])
    }

    @Test func nodeThatIsLostAfterTheRestartsIsMissingAtOnce() {
        var coordination = Self.coordination([1, 2], restartsUntil: 2_000)
        _ = coordination.begin(now: 0)
        Self.reply(Self.started, 1, &coordination)
        let lost = coordination.lose(NodeNumber(2), attempt: 1, because: "reset", now: 2_500)
        #expect(lost.last == .open(totalRows: 10))
    }

    // MARK: Indexes

    @Test func missingIndexRestartsQueryOnPreviousIndexOfAllNodes() throws {
        let signature = try QueryMessageTests.signature(1)
        var coordination = Self.coordination([1, 2], allowsPreviousIndex: true)
        #expect(
            Self.sends(coordination.begin(now: 0)).map(\.use) == [.currentIfReady, .currentIfReady]
        )
        Self.reply(Self.started, 1, &coordination)
        Self.reply(try Self.rows(1), 1, &coordination)
        let actions = Self.reply(.notReady(signature), 2, &coordination)
        #expect(actions.contains(.cancel(node: NodeNumber(1), attempt: 1)))
        #expect(Self.sends(actions).map(\.use) == [.previous, .previous])
        #expect(coordination.usesPreviousIndex)
        Self.reply(Self.started, 1, &coordination)
        #expect(Self.reply(Self.started, 2, &coordination) == [.open(totalRows: 20)])
        for node: UInt16 in [1, 2] { Self.reply(.end, node, &coordination) }
        #expect(Self.rowCount(&coordination) == 0, "rows of the current index are discarded")
        #expect(coordination.failures.isEmpty)
    }

    /// The previous index is removed once the current one is complete, also before a query notices that.
    @Test func removedPreviousIndexRestartsQueryOnCurrentIndexOnce() throws {
        let signature = try QueryMessageTests.signature(1)
        var coordination = Self.coordination([1, 2], allowsPreviousIndex: true)
        _ = coordination.begin(now: 0)
        Self.reply(.notReady(signature), 2, &coordination)
        let actions = Self.reply(.notReady(signature), 1, &coordination)
        #expect(Self.sends(actions).map(\.use) == [.current, .current])
        #expect(Self.sends(actions).map(\.attempt) == [3, 3])
        #expect(Self.reply(.notReady(signature), 2, &coordination).isEmpty)
        #expect(Self.reply(Self.started, 1, &coordination) == [.open(totalRows: 10)])
        #expect(coordination.failures == [Self.failure(2, [1], .notBuilt)])
    }

    @Test func restartAfterMoveUsesSameIndex() throws {
        let signature = try QueryMessageTests.signature(1)
        var coordination = Self.coordination([1, 2], allowsPreviousIndex: true)
        _ = coordination.begin(now: 0)
        Self.reply(.notReady(signature), 2, &coordination)
        Self.reply(.moved(2), 2, &coordination, now: 100)
        #expect(Self.sends(coordination.advance(now: 110)).map(\.use) == [.previous, .previous])
    }

    /// The definitions may differ in their reduce functions.
    @Test func rowsOfThePreviousIndexAreCombinedByItsOwnPlan() throws {
        let signature = try QueryMessageTests.signature(1)
        let terms = QueryCoordination.Terms(
            deadline: Self.deadline,
            merge: MergePlan(isGrouped: true),
            previousMerge: MergePlan()
        )
        var coordination = QueryCoordination(terms, map: Self.map(1, [1]))
        _ = coordination.begin(now: 0)
        Self.reply(.notReady(signature), 1, &coordination)
        Self.reply(Self.started, 1, &coordination)
        #expect(Self.reply(try Self.rows(1, 2), 1, &coordination).isEmpty)
        Self.reply(.end, 1, &coordination)
        #expect(Self.rowCount(&coordination) == 2 && coordination.failures.isEmpty)
    }

    @Test func queryForTheCurrentIndexNeverUsesThePreviousOne() throws {
        let signature = try QueryMessageTests.signature(1)
        var coordination = Self.coordination([1, 2], allowsPreviousIndex: false)
        _ = coordination.begin(now: 0)
        #expect(Self.reply(.notReady(signature), 2, &coordination).isEmpty)
        #expect(Self.reply(Self.started, 1, &coordination) == [.open(totalRows: 10)])
        #expect(coordination.failures == [Self.failure(2, [1], .notBuilt)])
    }

    @Test func indexThatIsBeingBuiltIsNamedAndCounts() {
        var coordination = Self.coordination([1, 1, 1])
        _ = coordination.begin(now: 0)
        let start = QueryStart(indexRows: 3, builtPercent: 43, missing: [VBucketID(1)])
        #expect(Self.reply(.start(start), 1, &coordination) == [.open(totalRows: 3)])
        #expect(coordination.failures == [Self.failure(1, [1], .building(percent: 43))])
        #expect(
            coordination.failures.map(\.reason)
                == ["The index is being built: 43 %. Rows of vBucket 1 are missing."]
        )
    }

    /// The index is also being built for vBuckets that this query does not read.
    @Test func indexThatHasAllRequestedVBucketsIsNotNamed() {
        var coordination = Self.coordination([1])
        _ = coordination.begin(now: 0)
        let start = QueryReply.start(QueryStart(indexRows: 3, builtPercent: 43))
        #expect(Self.reply(start, 1, &coordination) == [.open(totalRows: 3)])
        #expect(coordination.failures.isEmpty)
    }

    @Test func missingVBucketThatWasNotRequestedIsAViolation() {
        var coordination = Self.coordination([1, 2])
        _ = coordination.begin(now: 0)
        let start = QueryStart(indexRows: 3, builtPercent: 43, missing: [VBucketID(1)])
        #expect(
            Self.reply(.start(start), 1, &coordination) == [
                .cancel(node: NodeNumber(1), attempt: 1)
            ]
        )
        Self.reply(Self.started, 2, &coordination)
        let cause = QueryFailure.Cause.invalid("It named vBuckets that were not requested.")
        #expect(coordination.failures == [Self.failure(1, [0], cause)])
    }

    // MARK: Failures

    @Test func vBucketsWithoutANodeAreNamed() {
        var coordination = Self.coordination([0, 1, 0, 0])
        _ = coordination.begin(now: 0)
        Self.reply(Self.started, 1, &coordination)
        #expect(coordination.failures == [Self.failure(0, [0, 2, 3], .notServed)])
        #expect(coordination.failures.map(\.reason) == ["No node serves vBuckets 0, 2-3."])
    }

    @Test func queryWithoutAnyNodeOpensAtOnce() {
        var coordination = Self.coordination([0])
        #expect(coordination.begin(now: 0).last == .open(totalRows: 0))
        #expect(coordination.failures == [Self.failure(0, [0], .notServed)])
    }

    @Test func deadlineOpensTheQueryWithTheNodesThatStarted() throws {
        var coordination = Self.coordination([1, 2])
        #expect(coordination.begin(now: 0).first == .wake(at: Self.deadline))
        Self.reply(Self.started, 1, &coordination)
        Self.reply(try Self.rows(1, 2), 1, &coordination)
        Self.reply(.end, 1, &coordination)
        #expect(
            coordination.advance(now: Self.deadline) == [
                .cancel(node: NodeNumber(2), attempt: 1), .open(totalRows: 10),
            ]
        )
        #expect(coordination.failures == [Self.failure(2, [1], .timedOut)])
        #expect(Self.rowCount(&coordination) == 2)
    }

    @Test(arguments: [ViewQuery.FailurePolicy.continueRows, .stopRows])
    func failureAfterTheOpeningIsNamed(policy: ViewQuery.FailurePolicy) throws {
        let events: [(QueryReply?, QueryFailure.Cause)] = [
            (nil, .lost("reset")), (.failed("out of memory"), .failed("out of memory")),
            (.moved(9), .moved), (.start(QueryStart(indexRows: 1)), .invalid("It started twice.")),
            (
                .groups(try RowBatch.of([])), .invalid("It sent rows that were not expected.")
            ), (.notReady(try QueryMessageTests.signature(1)), .notBuilt),
        ]
        for (reply, cause) in events {
            var coordination = Self.coordination([1, 2], policy: policy)
            _ = coordination.begin(now: 0)
            Self.reply(Self.started, 1, &coordination)
            Self.reply(try Self.rows(1), 1, &coordination)
            Self.reply(.end, 1, &coordination)
            Self.reply(Self.started, 2, &coordination)
            if let reply {
                Self.reply(reply, 2, &coordination)
            } else {
                _ = coordination.lose(NodeNumber(2), attempt: 1, because: "reset", now: 0)
            }
            #expect(coordination.failures == [Self.failure(2, [1], cause)])
            #expect(Self.rowCount(&coordination) == (policy == .stopRows ? 0 : 1))
        }
    }

    @Test func rowsBeforeTheStartAndBeyondTheCreditAreInvalid() throws {
        var coordination = Self.coordination([1, 2])
        _ = coordination.begin(now: 0)
        let early = Self.reply(try Self.rows(1), 1, &coordination)
        #expect(early == [.cancel(node: NodeNumber(1), attempt: 1)])
        Self.reply(Self.started, 2, &coordination)
        for number in 1...3 { Self.reply(try Self.rows(number), 2, &coordination) }
        #expect(coordination.failures.map(\.vBuckets) == [[VBucketID(0)], [VBucketID(1)]])
    }

    @Test func nodeWithRowsOutOfOrderIsCancelledAtTheEnd() throws {
        var coordination = Self.coordination([1])
        _ = coordination.begin(now: 0)
        Self.reply(Self.started, 1, &coordination)
        Self.reply(try Self.rows(2, 1), 1, &coordination)
        #expect(Self.rowCount(&coordination) == 1)
        #expect(
            coordination.failures == [
                Self.failure(1, [0], .invalid("Its rows are out of order."))
            ]
        )
        #expect(coordination.close() == [.cancel(node: NodeNumber(1), attempt: 1)])
    }
}
