import Bytes
import ClusterService
import Orchestration
import Persistence
import TestSupport
import Testing
import Vocabulary

@Suite struct AdministrationServiceTests {
    let world = World()
    let ports = NodePorts(admin: 8_091, data: 11_210)

    var credentials: FormParameters {
        form(("port", "SAME"), ("username", "Administrator"), ("password", "password"))
    }

    func started(_ plane: RecordingPlane) async throws -> AdministrationService {
        let service = try world.service(plane)
        service.applier.openBuckets()
        try await service.start(host: "127.0.0.1", ports: ports)
        return service
    }

    func provisioned(_ plane: RecordingPlane) async throws -> AdministrationService {
        let service = try await started(plane)
        guard case .success = await Result(of: try await service.settings.initialise(credentials))
        else {
            Issue.record("not initialised")
            return service
        }
        return service
    }

    @Test func loneNodeAppliesItsStateOnceItsBucketsAreOpen() throws {
        let service = try world.service(RecordingPlane())
        defer { service.stop() }
        let seen = Guarded<[Bool]>([])
        service.cluster.observeState { [weak service] in
            let isFollowing = service?.applier.isFollowingState ?? false
            seen.withLock { $0.append(isFollowing) }
        }
        #expect(!service.applier.isFollowingState)
        service.applier.openBuckets()
        #expect(service.applier.isFollowingState)
        #expect(seen.withLock { $0.last } == true)
    }

    @Test func restartedNodeKeepsIdentityAndSettings() async throws {
        let first = try await provisioned(RecordingPlane())
        _ = await Result(
            of: try await first.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        _ = await Result(
            of: try await first.settings.change(
                form(("clusterName", "Home"), ("memoryQuota", "512"))
            )
        )
        let state = first.state
        first.stop()

        let plane = RecordingPlane()
        let second = try await started(plane)
        #expect(second.state == state)
        let bucket = try #require(state.buckets.first)
        #expect(
            plane.calls == [
                "retain \(bucket.settings.uuid)",
                "user Administrator may log in",
                "open b",
                "publish global 1.\(state.rev)",
                "publish b 1.\(bucket.rev)",
            ]
        )
        let known = plane.record.withLock { $0.users }
        #expect(known["Administrator"] == state.administrator?.stored)
        #expect(second.isAdministrator("Administrator", "password"))
        #expect(!second.isAdministrator("Administrator", "passwore"))
        #expect(!second.isAdministrator("administrator", "password"))
    }

    @Test func changedPortAfterRestartIsPublishedUnderNewRevision() async throws {
        let first = try await provisioned(RecordingPlane())
        _ = await Result(
            of: try await first.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        let before = try #require(first.state.bucket(named: "b")).rev
        let uuid = first.state.nodes.first?.uuid
        first.stop()
        let second = try world.service(RecordingPlane())
        second.applier.openBuckets()
        try await second.start(host: "127.0.0.1", ports: NodePorts(admin: 8_191, data: 11_310))
        let after = try #require(second.state.bucket(named: "b")).rev
        #expect(after > before)
        #expect(second.state.nodes.map(\.otpNode) == ["n_8191@127.0.0.1"])
        #expect(second.state.nodes.first?.uuid == uuid)
    }

    @Test func nodeStaysReadyWhileBucketIsCreatedAndIsNotReadyIfItCannotBeOpened() async throws {
        let plane = RecordingPlane()
        let service = try await provisioned(plane)
        let seen = Guarded<[ReadinessObstacle]?>(nil)
        plane.record.withLock {
            $0.witness = { [weak service] call in
                guard call == "open b" else { return }
                seen.withLock { $0 = service?.health.readinessObstacles }
            }
        }
        _ = await Result(
            of: try await service.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        #expect(seen.withLock { $0 } == [])
        #expect(service.health.readinessObstacles.isEmpty)
        // The data plane has lost the bucket of an entry that was carried out before.
        plane.record.withLock { $0.status["b"] = nil }
        #expect(service.health.readinessObstacles == [.failed(bucket: "b")])
    }

    @Test func newBucketIsStoredBeforeOpeningAndOpenedBeforePublishing() async throws {
        let plane = RecordingPlane()
        let service = try await provisioned(plane)
        let seen = Guarded<[String]>([])
        let root = world.root
        plane.record.withLock {
            $0.calls = []
            $0.witness = { call in
                let store = try? ControlStore(disk: FileDisk(), directory: root)
                let entries = (try? store?.load())?.entries ?? []
                let creations = entries.count { entry in
                    let command = (try? ClusterEnvelope(decoding: entry.bytes))?.command
                    if case .createBucket = command { return true }
                    return false
                }
                seen.withLock { $0.append("\(call): \(creations) on disk") }
            }
        }
        _ = await Result(
            of: try await service.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        let rev = try #require(service.state.bucket(named: "b")).rev
        #expect(
            seen.withLock { $0 } == ["open b: 1 on disk", "publish b 1.\(rev): 1 on disk"]
        )
    }

    @Test func changeIsRefusedWhenDiskFails() async throws {
        let plane = RecordingPlane()
        let service = try await provisioned(plane)
        try service.cluster.controlStore.limit(pages: 1)
        let kept = service.state
        plane.record.withLock { $0.calls = [] }
        let outcome = await Result(
            of: try await service.settings.change(form(("clusterName", "another name")))
        )
        guard case .failure(.failed(let failure)) = outcome else {
            Issue.record("kept: \(outcome)")
            return
        }
        #expect(failure.contains("full"))
        #expect(service.state == kept)
        #expect(plane.calls.isEmpty)
        #expect(service.health.alerts.contains { $0.message.contains("takes no part") })
        try service.cluster.controlStore.limit(pages: 0)
        _ = await Result(
            of: try await service.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        #expect(service.state.buckets.count == 1)
        #expect(!service.health.alerts.contains { $0.message.contains("takes no part") })
    }

    @Test func readCurrentReturnsAgreedChange() async throws {
        let service = try await provisioned(RecordingPlane())
        _ = await Result(of: try await service.settings.change(form(("clusterName", "Home"))))
        #expect(try await service.cluster.readCurrent().name == "Home")
        service.stop()
        await #expect(throws: ClusterError.self) { try await service.cluster.readCurrent() }
    }

    @Test func bucketThatFailsToOpenAtStartIsReopened() async throws {
        let first = try await provisioned(RecordingPlane())
        _ = await Result(
            of: try await first.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        first.stop()
        let plane = RecordingPlane()
        plane.record.withLock { $0.refused = ["b"] }
        let second = try await started(plane)
        #expect(second.health.alerts.contains { $0.message.contains("no room for b") })
        plane.record.withLock { $0.refused = [] }
        world.lanes.runTimers()
        #expect(!second.health.alerts.contains { $0.message.contains("no room for b") })
        #expect(plane.calls.suffix(2).first == "open b")
    }

    @Test func newBucketThatCannotBeOpenedIsDeleted() async throws {
        let plane = RecordingPlane()
        let service = try await provisioned(plane)
        plane.record.withLock { $0.refused = ["b"] }
        let outcome = await Result(
            of: try await service.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        guard case .failure(.failed(let text)) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(text == "The bucket could not be opened: no room for b")
        #expect(service.state.buckets.isEmpty)
        #expect(plane.calls.suffix(2) == ["open b", "delete b"])
    }

    @Test func bucketIsCreatedChangedFlushedAndDeleted() async throws {
        let plane = RecordingPlane()
        let service = try await provisioned(plane)
        _ = await Result(
            of: try await service.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        plane.record.withLock { $0.calls = [] }
        guard case .failure(.refused) = await Result(of: try await service.buckets.flush("b"))
        else {
            Issue.record("flushed")
            return
        }
        _ = await Result(
            of: try await service.buckets.change(
                "b",
                form(("flushEnabled", "1"), ("replicaNumber", "2"))
            )
        )
        let bucket = try #require(service.state.bucket(named: "b"))
        #expect(bucket.settings.flushEnabled)
        #expect(bucket.placements[7].chain == [service.thisNode])
        #expect(bucket.replicaColumns == 2)
        guard case .success = await Result(of: try await service.buckets.flush("b")) else {
            Issue.record("not flushed")
            return
        }
        _ = await Result(of: try await service.buckets.change("b", form(("flushEnabled", "1"))))
        _ = await Result(of: try await service.buckets.delete("b"))
        guard case .failure(.unknown) = await Result(of: try await service.buckets.delete("b"))
        else {
            Issue.record("deleted twice")
            return
        }
        // A change without an effect reaches no data plane.
        #expect(
            plane.calls == ["change b", "publish b 1.\(bucket.rev)", "flush b", "delete b"]
        )
    }

    /// Its copies are emptied one by one; the flush ends when all of them are empty.
    @Test func flushRefusedByDiskAtFirstIsReportedAsDone() async throws {
        let plane = RecordingPlane()
        let service = try await provisioned(plane)
        let bucket = form(("name", "b"), ("ramQuotaMB", "100"), ("flushEnabled", "1"))
        _ = await Result(of: try await service.buckets.create(bucket))
        plane.record.withLock { $0.refused = ["b"] }
        guard case .success = await Result(of: try await service.buckets.flush("b")) else {
            Issue.record("not flushed")
            return
        }
        #expect(plane.calls.contains("flush b"))
        #expect(service.state.bucket(named: "b")?.flush == nil)
    }

    /// Copies that the first flush has emptied may have new writes: they are emptied again.
    @Test func flushRequestedDuringFlushBeginsAfterIt() async throws {
        let plane = RecordingPlane()
        let service = try await provisioned(plane)
        let bucket = form(("name", "b"), ("ramQuotaMB", "100"), ("flushEnabled", "1"))
        _ = await Result(of: try await service.buckets.create(bucket))
        plane.carriedThrough.withLock { $0 = 0 }
        let over = Guarded(0)
        @Sendable func flush() async -> Result<Void, AdministrationError> {
            defer { over.withLock { $0 += 1 } }
            return await Result(of: try await service.buckets.flush("b"))
        }
        async let first = flush()
        for _ in 0..<500 where service.state.bucket(named: "b")?.flush == nil {
            try await Task.sleep(for: .milliseconds(10))
        }
        let running = service.cluster.raftStatus.applied
        async let second = flush()
        // It is refused, without an effect on the data plane.
        for _ in 0..<500 where service.cluster.raftStatus.applied == running {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(service.cluster.raftStatus.applied > running)
        plane.carriedThrough.withLock { $0 = .max }
        // A lone node's orchestrator runs again after a change.
        _ = await Result(of: try await service.settings.change(form(("clusterName", "Home"))))
        for _ in 0..<500 where over.withLock({ $0 < 2 }) {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(over.withLock { $0 } == 2)
        // Requests that still wait end now.
        for _ in 0..<100 where over.withLock({ $0 < 2 }) {
            world.passSecond()
            try await Task.sleep(for: .milliseconds(10))
        }
        for outcome in await [first, second] {
            guard outcome.isDone else {
                Issue.record("\(outcome)")
                continue
            }
        }
        #expect(plane.calls.count { $0 == "flush b" } == 2)
        #expect(service.state.bucket(named: "b")?.flush == nil)
    }

    /// On a lone node no other event would wake the orchestrator.
    @Test func flushInterruptedByStopOfLoneNodeEndsAfterRestart() async throws {
        let first = try await provisioned(RecordingPlane())
        let bucket = form(("name", "b"), ("ramQuotaMB", "100"), ("flushEnabled", "1"))
        _ = await Result(of: try await first.buckets.create(bucket))
        let held = RecordingPlane()
        held.carriedThrough.withLock { $0 = 0 }
        first.stop()
        let second = try await started(held)
        let uuid = try #require(second.state.bucket(named: "b")).settings.uuid
        let begin = BucketStep(name: "b", uuid: uuid, phase: .begin)
        guard case .done = try await second.cluster.propose(.flushBucket(begin)) else {
            Issue.record("the flush did not begin")
            return
        }
        second.stop()

        let plane = RecordingPlane()
        plane.carriedThrough.withLock { $0 = 0 }
        let third = try await started(plane)
        #expect(third.state.bucket(named: "b")?.flush != nil)
        plane.carriedThrough.withLock { $0 = .max }
        for _ in 0..<500 where third.state.bucket(named: "b")?.flush != nil {
            world.passSecond()
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(third.state.bucket(named: "b")?.flush == nil)
    }

    @Test func concurrentCreatesOfSameNameCreateOneBucket() async throws {
        let service = try await provisioned(RecordingPlane())
        let form = form(("name", "b"), ("ramQuotaMB", "100"))
        @Sendable func isCreated() async -> Bool {
            await Result(of: try await service.buckets.create(form)).isDone
        }
        let outcomes = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                group.addTask { await isCreated() }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { $0 } == 1)
        #expect(service.state.buckets.count == 1)
    }

    @Test func administratorIsSetOnceWithoutPasswordThenReplaced() async throws {
        let plane = RecordingPlane()
        let service = try await provisioned(plane)
        guard
            case .failure(.invalid(let errors, _)) = await Result(
                of: try await service.settings.initialise(credentials)
            )
        else {
            Issue.record("initialised twice")
            return
        }
        #expect(errors == [FieldError("_", "The cluster is initialized already")])
        let next = form(("port", "SAME"), ("username", "Eve"), ("password", "secret2"))
        guard
            case .success = await Result(
                of: try await service.settings.setAdministrator(next, isFirst: false, by: root)
            )
        else {
            Issue.record("not changed")
            return
        }
        let calls = ["user Administrator may not log in", "user Eve may log in"]
        #expect(plane.calls.suffix(2) == calls[...])
        #expect(service.isAdministrator("Eve", "secret2"))
        #expect(!service.isAdministrator("Administrator", "password"))
        #expect(!service.isAdministrator("Administrator", "secret2"))
    }

    @Test func watcherWakesOnChangeStopAndTimeout() async throws {
        let service = try await provisioned(RecordingPlane())
        let start = service.cluster.changes
        async let heard = service.cluster.waitForChange(after: start, nanoseconds: 1 << 60)
        _ = await Result(
            of: try await service.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        #expect(await heard == start + 1)
        // A late watcher does not wait.
        #expect(
            await service.cluster.waitForChange(after: start, nanoseconds: 1 << 60) == start + 1
        )
        let isOver = Guarded(false)
        let patience = Task {
            defer { isOver.withLock { $0 = true } }
            return await service.cluster.waitForChange(after: start + 1, nanoseconds: 1)
        }
        while !isOver.withLock({ $0 }) {
            world.lanes.runTimers()
            await Task.yield()
        }
        #expect(await patience.value == start + 1)
        async let last = service.cluster.waitForChange(after: start + 1, nanoseconds: 1 << 60)
        service.stop()
        #expect(await last == start + 2)
    }

    @Test func changeCancelsTimerOfItsWatcher() async throws {
        let service = try await provisioned(RecordingPlane())
        let start = service.cluster.changes
        async let heard = service.cluster.waitForChange(after: start, nanoseconds: 1 << 60)
        while world.lanes.timerCount(nanoseconds: 1 << 60) == 0 { await Task.yield() }
        _ = await Result(
            of: try await service.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        #expect(await heard == start + 1)
        #expect(world.lanes.timerCount(nanoseconds: 1 << 60) == 0)
    }

    @Test func nodeIsHealthyWhenEveryBucketIsReady() async throws {
        let plane = RecordingPlane()
        let service = try await provisioned(plane)
        #expect(service.statistics.nodeStatus == .healthy)
        _ = await Result(
            of: try await service.buckets.create(form(("name", "b"), ("ramQuotaMB", "100")))
        )
        #expect(service.statistics.nodeStatus == .healthy)
        plane.record.withLock { $0.status["b"] = .warmingUp(0.5) }
        #expect(service.statistics.nodeStatus == .warmup)
        plane.record.withLock { $0.status["b"] = .failed("damaged") }
        #expect(service.statistics.nodeStatus == .unhealthy)
    }
}
