import Bytes
import Indexing
import TestSupport
import Testing
import ViewService

/// Queries of a node that coordinates as many as it may.
@Suite(.timeLimit(.minutes(2))) struct QuerySlotsTests {
    /// A world with one slot, whose node sends the start of an answer, or all of an empty one.
    private static func world(waiters: Int = 10, isAnswering: Bool = false) -> RunWorld {
        let world = RunWorld([1], slots: 1, waiters: waiters)
        world.nodes.follow { _, _ in isAnswering ? ScriptedNodes.rows([]) : [ScriptedNodes.start] }
        return world
    }

    private static func isBusy(_ beginning: QueryRun.Beginning) -> Bool {
        if case .busy = beginning { true } else { false }
    }

    // MARK: Queries

    @Test func waitingQueryBeginsWhenASlotIsFreed() async throws {
        let world = Self.world(isAnswering: true)
        defer { world.stop() }
        let first = try await world.run()
        let second = Task { try await world.answer() }
        try await waitUntil("the second query waits") { world.slots.waitingCount == 1 }
        #expect(world.nodes.calls.count == 1)
        // The end of the answer frees the slot, before `cancel`.
        _ = try await RunWorld.read(first)
        let answer = try await second.value
        #expect(!answer.isPartial && world.nodes.calls.count == 2)
        #expect(world.slots.usedCount == 0 && world.slots.waitingCount == 0)
        first.cancel()
    }

    @Test func queryWithoutASlotIsBusyAtItsDeadline() async throws {
        let world = Self.world()
        defer { world.stop() }
        let first = try await world.run()
        var query = ViewQuery()
        query.timeoutMilliseconds = 30
        let late = try await world.begin(query)
        #expect(Self.isBusy(late) && world.nodes.calls.count == 1)
        #expect(world.slots.usedCount == 1 && world.slots.waitingCount == 0)
        query.timeoutMilliseconds = 0
        let impatient = try await world.begin(query)
        #expect(Self.isBusy(impatient))
        first.cancel()
    }

    @Test func admittedQueryHoldsItsSlotUntilReleased() async throws {
        let world = Self.world(isAnswering: true)
        defer { world.stop() }
        let admission = await QueryRun.admit(
            to: RunWorld.bucket,
            within: 60_000,
            world.dependencies
        )
        guard case .admitted(let place) = admission else {
            Issue.record("not admitted: \(admission)")
            return
        }
        #expect(world.slots.usedCount == 1 && world.nodes.calls.isEmpty)
        let run = try await world.run(in: place)
        _ = try await RunWorld.read(run)
        run.cancel()
        #expect(world.slots.usedCount == 0 && world.nodes.calls.count == 1)
    }

    @Test func slotOfAPlaceThatIsNotUsedIsFree() async throws {
        let world = Self.world()
        defer { world.stop() }
        _ = await QueryRun.admit(to: RunWorld.bucket, within: 60_000, world.dependencies)
        #expect(world.slots.usedCount == 0)
        let unknown = QueryRun.Bucket(uuid: "other", name: "other")
        let refused = await QueryRun.admit(to: unknown, within: 60_000, world.dependencies)
        guard case .unknownBucket = refused else {
            Issue.record("admitted: \(refused)")
            return
        }
        #expect(world.slots.usedCount == 0)
    }

    @Test func waitCountsTowardsTheTimeoutOfTheQuery() async throws {
        let world = Self.world(isAnswering: true)
        defer { world.stop() }
        let first = try await world.run()
        var query = ViewQuery()
        query.timeoutMilliseconds = 60_000
        let second = Task { [query] in try await world.answer(query) }
        try await waitUntil("the second query waits") { world.slots.waitingCount == 1 }
        try await Task.sleep(for: .milliseconds(20))
        first.cancel()
        _ = try await second.value
        #expect(world.nodes.calls[1].request.startMillisecondsMax <= 59_981)
    }

    @Test func cancelledQueryFreesItsPlaceAmongThoseThatWait() async throws {
        let world = Self.world(waiters: 1)
        defer { world.stop() }
        let first = try await world.run()
        let second = Task { try await world.begin() }
        try await waitUntil("the second query waits") { world.slots.waitingCount == 1 }
        second.cancel()
        let cancelled = try await second.value
        #expect(Self.isBusy(cancelled))
        #expect(world.slots.usedCount == 1 && world.slots.waitingCount == 0)
        first.cancel()
        let third = try await world.run()
        #expect(world.nodes.calls.count == 2)
        third.cancel()
    }

    @Test func queryBeyondThoseThatMayWaitIsBusyAtOnce() async throws {
        let world = Self.world(waiters: 1)
        defer { world.stop() }
        let first = try await world.run()
        let second = Task { try await world.begin() }
        try await waitUntil("the second query waits") { world.slots.waitingCount == 1 }
        let third = try await world.begin()
        #expect(Self.isBusy(third) && world.slots.waitingCount == 1)
        second.cancel()
        _ = try await second.value
        first.cancel()
    }

    @Test func queryOfAnUnknownBucketDoesNotWait() async throws {
        let world = Self.world()
        defer { world.stop() }
        let first = try await world.run()
        let other = QueryRun.Bucket(uuid: "u2", name: "other")
        guard case .unknownBucket = try await world.begin(of: other) else {
            Issue.record("a query of an unknown bucket began")
            return
        }
        #expect(world.slots.usedCount == 1)
        first.cancel()
    }

    // MARK: Slots

    @Test func slotsPassToTheQueriesInTheOrderOfTheirArrival() async throws {
        let world = Self.world()
        defer { world.stop() }
        let first = await world.acquireSlot(withinMilliseconds: 0)
        let order = Guarded<[Int]>([])
        var tasks: [Task<Void, Never>] = []
        for number in 0..<5 {
            tasks.append(
                Task {
                    let slot = await world.acquireSlot(withinMilliseconds: 60_000)
                    order.withLock { $0.append(number) }
                    slot?.release()
                }
            )
            try await waitUntil("the query waits") {
                world.slots.waitingCount == number + 1
            }
        }
        #expect(first != nil && order.withLock { $0.isEmpty })
        first?.release()
        for task in tasks { await task.value }
        #expect(order.withLock { $0 } == Array(0..<5))
        #expect(world.slots.usedCount == 0)
    }

    @Test func slotsSurviveConcurrentReleasesDeadlinesAndCancellations() async throws {
        let world = RunWorld([1], slots: 2, waiters: 100)
        defer { world.stop() }
        let grants = Guarded(0)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<500 {
                group.addTask {
                    let task = Task {
                        await world.acquireSlot(withinMilliseconds: UInt64(number % 4))
                    }
                    if number.isMultiple(of: 3) { task.cancel() }
                    guard let slot = await task.value else { return }
                    grants.withLock { $0 += 1 }
                    await Task.yield()
                    // The other ones are freed by their last reference.
                    if number.isMultiple(of: 2) { slot.release() }
                }
            }
        }
        #expect(grants.withLock { $0 } > 0 && world.slots.waitingCount == 0)
        // A task releases its result some time after its value was read.
        try await waitUntil("all slots are free") { world.slots.usedCount == 0 }
    }
}
