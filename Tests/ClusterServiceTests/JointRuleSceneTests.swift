import Bytes
import ClusterService
import Orchestration
import TestSupport
import Testing
import Vocabulary

/// Concurrent requests that are valid on arrival: the request that the log refuses gets the reply
/// that it would get after the other request.
@Suite(.serialized) struct JointRuleSceneTests {
    private typealias Outcome = Result<Void, AdministrationError>

    private static func create(
        _ form: FormParameters,
        _ service: AdministrationService
    ) async -> Outcome {
        await Result(of: try await service.buckets.create(form))
    }

    /// One provisioned node with 1 000 MB for buckets.
    private func built() async throws -> ClusterScene {
        let scene = try ClusterScene(1)
        try await scene.build()
        return scene
    }

    /// Sends requests while the disk is held: all are checked before any of them is agreed on.
    private func together(
        _ scene: ClusterScene,
        _ requests: [@Sendable (AdministrationService) async -> Outcome]
    ) async throws -> [Outcome] {
        scene.members[0].holdDisk()
        let service = scene[1]
        return try await withThrowingTaskGroup(of: Outcome.self) { group in
            for request in requests { group.addTask { await request(service) } }
            try await Task.sleep(for: .milliseconds(300))
            scene.members[0].releaseDisk()
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    private func refusals(_ outcomes: [Outcome]) -> [[FieldError]] {
        outcomes.compactMap {
            if case .failure(.invalid(let errors, _)) = $0 { errors } else { nil }
        }
    }

    @Test func secondOfTwoCreatesIsRefusedAsOnArrival() async throws {
        let scene = try await built()
        defer { scene.stop() }
        let requests: [@Sendable (AdministrationService) async -> Outcome] = ["one", "two"].map {
            name in
            { @Sendable service in
                await Self.create(form(("name", name), ("ramQuotaMB", "600")), service)
            }
        }
        let outcomes = try await together(scene, requests)
        #expect(outcomes.count(where: \.isDone) == 1)
        let text =
            "The memory quota of 600 MB does not fit: of the data service's 1000 MB on each node, "
            + "400 MB are free"
        #expect(refusals(outcomes) == [[FieldError("ramQuota", text)]])
        #expect(scene[1].state.buckets.count == 1)
    }

    @Test func secondOfTwoQuotaRaisesIsRefusedAsOnArrival() async throws {
        let scene = try await built()
        defer { scene.stop() }
        for name in ["one", "two"] {
            let made = await Result(
                of: try await scene[1].buckets.create(
                    form(("name", name), ("ramQuotaMB", "200"))
                )
            )
            #expect(made.isDone)
        }
        @Sendable func change(
            _ name: String,
            _ form: FormParameters,
            _ service: AdministrationService
        ) async -> Outcome {
            await Result(of: try await service.buckets.change(name, form))
        }
        let requests: [@Sendable (AdministrationService) async -> Outcome] = ["one", "two"].map {
            name in
            { @Sendable service in
                await change(name, form(("ramQuotaMB", "600")), service)
            }
        }
        let outcomes = try await together(scene, requests)
        #expect(outcomes.count(where: \.isDone) == 1)
        #expect(refusals(outcomes).map { $0.map(\.field) } == [["ramQuota"]])
        #expect(scene[1].state.quotaExcess == 0)
    }

    /// The caller checks the form again, and the errors then name the quota that is too low.
    @Test func createAndLowerQuotaAtOnceNeverExceedMemoryQuota() async throws {
        let scene = try await built()
        defer { scene.stop() }
        let lowered = form(("memoryQuota", "512"))
        let made = form(("name", "one"), ("ramQuotaMB", "600"))
        @Sendable func lower(_ service: AdministrationService) async -> Outcome {
            await Result(of: try await service.settings.change(lowered))
        }
        let outcomes = try await together(
            scene,
            [
                { await Self.create(made, $0) }, { await lower($0) },
            ]
        )
        let isCreated = scene[1].state.bucket(named: "one") != nil
        #expect(scene[1].state.quotaExcess == 0)
        #expect(scene[1].state.memoryQuota == (isCreated ? 1_000 : 512) << 20)
        #expect(outcomes.count(where: \.isDone) == 1)
        let fields = scene[1].settings.validateChange(lowered).errors.map(\.field)
        #expect(fields == (isCreated ? ["memoryQuota"] : []))
    }

    /// Of names that differ only in case one is created; the other gets the error that clients look
    /// for.
    @Test func secondOfTwoNamesThatDifferInCaseIsRefusedAsOnArrival() async throws {
        let scene = try await built()
        defer { scene.stop() }
        let requests: [@Sendable (AdministrationService) async -> Outcome] = ["travel", "Travel"]
            .map { name in
                { @Sendable service in
                    await Self.create(form(("name", name), ("ramQuotaMB", "100")), service)
                }
            }
        let outcomes = try await together(scene, requests)
        #expect(outcomes.count(where: \.isDone) == 1)
        let taken = FieldError("name", "Bucket with given name already exists")
        #expect(refusals(outcomes) == [[taken]])
    }

    @Test func bucketBeyondMaxBucketCountIsRefusedAsOnArrival() async throws {
        let scene = try await built()
        defer { scene.stop() }
        guard
            case .success = await Result(of: try await scene[1].settings.change(maxBucketCount: 1))
        else {
            throw SceneError("maxBucketCount")
        }
        let requests: [@Sendable (AdministrationService) async -> Outcome] = ["one", "two"].map {
            name in
            { @Sendable service in
                await Self.create(form(("name", name), ("ramQuotaMB", "100")), service)
            }
        }
        let outcomes = try await together(scene, requests)
        #expect(outcomes.count(where: \.isDone) == 1)
        #expect(
            outcomes.count {
                if case .failure(.refused("Cannot create more than 1 buckets")) = $0 {
                    true
                } else {
                    false
                }
            } == 1
        )
    }

    /// The second flush waits for the first, and finds that flushes are not allowed any more.
    @Test func waitingFlushIsRefusedOnceFlushIsDisabled() async throws {
        let scene = try await built()
        defer { scene.stop() }
        let fields = form(("name", "one"), ("ramQuotaMB", "100"), ("flushEnabled", "1"))
        #expect(await Result(of: try await scene[1].buckets.create(fields)).isDone)
        let plane = try #require(scene.members[0].plane)
        plane.carriedThrough.withLock { $0 = 0 }
        let service = scene[1]
        async let first = Result(of: try await service.buckets.flush("one"))
        #expect(await eventually { service.state.bucket(named: "one")?.flush != nil })
        let applied = service.cluster.raftStatus.applied
        async let second = Result(of: try await service.buckets.flush("one"))
        #expect(await eventually { service.cluster.raftStatus.applied > applied })
        #expect(
            await Result(
                of: try await service.buckets.change("one", form(("flushEnabled", "0")))
            ).isDone
        )
        plane.carriedThrough.withLock { $0 = .max }
        // A lone node's orchestrator runs again after a change.
        _ = await Result(of: try await service.settings.change(form(("clusterName", "Home"))))
        #expect(await first.isDone)
        guard case .failure(.refused) = await second else {
            Issue.record("the bucket was emptied")
            return
        }
        #expect(plane.calls.count { $0 == "flush one" } == 1)
    }

    /// Of two requests that provision a node together, the refused one sets nothing.
    @Test func secondOfTwoInitialisationsChangesNoSetting() async throws {
        let scene = try ClusterScene(1)
        defer { scene.stop() }
        try await scene.members[0].start()
        @Sendable func initialise(
            _ form: FormParameters,
            _ service: AdministrationService
        ) async -> Outcome {
            await Result(of: try await service.settings.initialise(form))
        }
        let requests: [@Sendable (AdministrationService) async -> Outcome] = [
            ("one", "300"), ("two", "400"),
        ].map { name, quota in
            let fields = form(
                ("port", "SAME"),
                ("username", name),
                ("password", "password"),
                ("memoryQuota", quota),
                ("clusterName", name)
            )
            return { @Sendable service in await initialise(fields, service) }
        }
        let outcomes = try await together(scene, requests)
        #expect(outcomes.count(where: \.isDone) == 1)
        let state = scene[1].state
        #expect(state.name == state.administrator?.name)
        #expect(state.memoryQuota == (state.name == "one" ? 300 : 400) << 20)
    }
}
