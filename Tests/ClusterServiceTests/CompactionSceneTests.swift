import Bytes
import ClusterService
import Orchestration
import Seams
import TestSupport
import Testing
import Vocabulary

/// Compaction requested from one node.
@Suite(.serialized) struct CompactionSceneTests {
    @Test func compactionRunsOnEveryNodeOfTheBucket() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        try await scene.keepFromFailingOver()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one]])
        // Requested from the node without a part of the bucket.
        guard case .success = await Result(of: try await scene[3].compaction.compact("b")) else {
            Issue.record("not all nodes have begun")
            return
        }
        let begun = scene.members.map { member in
            member.plane?.calls.contains("compact b") ?? false
        }
        #expect(begun[0...1] == [true, true])
        guard
            case .failure(.unknown) = await Result(
                of: try await scene[1].compaction.compact("none")
            )
        else {
            Issue.record("a bucket that does not exist was compacted")
            return
        }
        #expect(scene.members[2].plane?.calls.contains("compact b") == false)
        scene.members[1].stop()
        guard
            case .failure(.failed(let text)) = await Result(
                of: try await scene[3].compaction.compact("b")
            )
        else {
            Issue.record("node 2 has begun although it is stopped")
            return
        }
        #expect(text.contains("\(scene.name(2)) did not answer"))
        #expect(text.hasPrefix("Not all nodes have begun"))
        let warnings = scene[3].cluster.events.all().filter { $0.severity == .warning }.map(\.text)
        #expect(warnings.contains { $0.contains("\(scene.name(2)) did not answer") })
        scene.members[0].stop()
        guard
            case .failure(.failed(let text)) = await Result(
                of: try await scene[3].compaction.compact("b")
            )
        else {
            Issue.record("a stopped node has begun")
            return
        }
        #expect(text.hasPrefix("No node has begun"))
        #expect(text.contains("\(scene.name(1)), \(scene.name(2)) did not answer"))
    }

    @Test func reachableNodeCompactsAllViewsWhileAnotherNodeIsDown() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        try await scene.keepFromFailingOver()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one]])
        #expect(await eventually { scene[3].state.featureLevel == .current })
        let body = Array(#"{"views":{"v":{"map":"function (d) {}"}}}"#.utf8)
        let names = (0..<6).map { "d\($0)" }
        for name in names {
            _ = try await scene[3].designDocuments.putDesignDocument(
                name,
                body: body,
                inBucket: "b"
            )
        }
        for number in 1...3 {
            #expect(
                await eventually {
                    scene[number].designDocuments.document("d5", ofBucket: "b") != nil
                }
            )
        }
        scene.members[1].stop()
        guard
            case .failure(.failed(let text)) = await Result(
                of: try await scene[3].compaction.compactAll("b")
            )
        else {
            Issue.record("node 2 has begun although it is stopped")
            return
        }
        #expect(text.contains("\(scene.name(2)) did not answer"))
        // The node that answers compacts the documents and each design document once.
        #expect(scene.members[0].plane?.calls.filter { $0 == "compact b" }.count == 1)
        let orders = scene.members[0].views.withLock { $0.orders }
        #expect(orders.map(\.designDocument).sorted() == names)
    }

    @Test func compactionIsShownAndCancelledOnEveryNodeOfTheBucket() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        try await scene.keepFromFailingOver()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one]])
        #expect(await eventually { scene[3].state.featureLevel == .current })
        #expect(scene[3].compaction.compactions(ofBucket: "b").isEmpty)
        for (number, plane) in scene.members.compactMap(\.plane).prefix(2).enumerated() {
            // Statistics have the figures of buckets with statistics only.
            plane.record.withLock { $0.statistics["b"] = BucketStatistics() }
            let work = CompactionWork(done: UInt64(number), total: 9)
            plane.compactions.withLock { $0["b"] = work }
        }
        let works = [CompactionWork(done: 0, total: 9), CompactionWork(done: 1, total: 9)]
        #expect(await eventually { scene[3].compaction.compactions(ofBucket: "b") == works })
        #expect(await eventually { scene[1].compaction.compactions(ofBucket: "b") == works })
        let body = Array(#"{"views":{"v":{"map":"function (d) {}"}}}"#.utf8)
        _ = try await scene[3].designDocuments.putDesignDocument("x", body: body, inBucket: "b")
        // Requested from the node without a part of the bucket.
        guard case .success = await Result(of: try await scene[3].compaction.cancel("b")),
            case .success = await Result(of: try await scene[3].compaction.cancelAll("b")),
            case .failure(.unknown) = await Result(of: try await scene[3].compaction.cancel("none"))
        else {
            Issue.record("not all nodes have ended")
            return
        }
        let cancelled = scene.members.map { member in
            member.plane?.calls.count { $0 == "cancel compaction of b" }
        }
        #expect(cancelled == [2, 2, 0])
        for member in scene.members.prefix(2) {
            let orders = member.views.withLock { $0.orders }
            #expect(orders.map(\.designDocument) == ["x"] && orders[0].isCancellation)
        }
        scene.members[1].plane?.compactions.withLock { $0 = [:] }
        #expect(await eventually { scene[3].compaction.compactions(ofBucket: "b") == [works[0]] })
        scene.members[1].stop()
        guard
            case .failure(.failed(let text)) = await Result(
                of: try await scene[3].compaction.cancel("b")
            )
        else {
            Issue.record("node 2 has ended its compaction although it is stopped")
            return
        }
        #expect(text.contains("may continue: \(scene.name(2)) did not answer"))
    }

    @Test func compactionErrorNamesNodeThatDoesNotBegin() async throws {
        let scene = try ClusterScene(2)
        defer { scene.stop() }
        try await scene.build()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one]])
        for number in [1, 2] {
            let plane = scene.members[number - 1].plane
            plane?.refusesCompaction.withLock { $0 = true }
            guard
                case .failure(.failed(let text)) = await Result(
                    of: try await scene[1].compaction.compact("b")
                )
            else {
                Issue.record("a node that refuses has begun")
                return
            }
            #expect(text.contains("Not all nodes have begun compaction: \(scene.name(number)) "))
            plane?.refusesCompaction.withLock { $0 = false }
        }
        guard case .success = await Result(of: try await scene[1].compaction.compact("b")) else {
            Issue.record("not all nodes have begun")
            return
        }
    }

    @Test func requestedPurgeRunsOnEveryNodeOfTheBucketThatHasLoadedIt() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one]])
        #expect(await eventually { scene[3].state.featureLevel == .current })
        // Requested from the node without a part of the bucket.
        guard case .success = await Result(of: try await scene[3].compaction.purge("b")) else {
            Issue.record("not all nodes have begun")
            return
        }
        let begun = scene.members.map { member in
            member.plane?.calls.contains("purge b") ?? false
        }
        #expect(begun == [true, true, false])
        guard
            case .failure(.unknown) = await Result(of: try await scene[1].compaction.purge("none"))
        else {
            Issue.record("a bucket that does not exist was purged")
            return
        }
        let plane = try #require(scene.members[0].plane)
        plane.record.withLock { $0.status["b"] = .warmingUp(0.5) }
        for asked in [1, 3] {
            guard
                case .failure(.failed(let text)) = await Result(
                    of: try await scene[asked].compaction.purge("b")
                )
            else {
                Issue.record("node 1 has begun although it is loading the bucket")
                return
            }
            #expect(text.contains("not begun on \(scene.name(1)):"))
        }
        plane.record.withLock { $0.status["b"] = .ready }
        scene.members[1].stop()
        guard
            case .failure(.failed(let text)) = await Result(
                of: try await scene[3].compaction.purge("b")
            )
        else {
            Issue.record("node 2 has begun although it is stopped")
            return
        }
        #expect(text.contains("not begun on \(scene.name(2)):"))
    }

    private func outcome(
        _ request: () async throws(AdministrationError) -> Void
    ) async -> AdministrationError? {
        do throws(AdministrationError) {
            try await request()
            return nil
        } catch {
            return error
        }
    }

    @Test func viewsAreCompactedOnEveryNodeOfTheBucket() async throws {
        let scene = try ClusterScene(3)
        defer { scene.stop() }
        try await scene.build()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one]])
        #expect(await eventually { scene[3].state.featureLevel == .current })
        for (name, text) in [
            ("x", #"{"views":{"v":{"map":"function (d) {}"}}}"#), ("empty", #"{"views":{}}"#),
        ] {
            let (documents, body) = (scene[3].designDocuments, Array(text.utf8))
            _ = try await documents.putDesignDocument(name, body: body, inBucket: "b")
        }
        for number in 1...3 {
            let documents = scene[number].designDocuments
            #expect(await eventually { documents.document("empty", ofBucket: "b") != nil })
        }
        scene.members[1].views.withLock { $0.hasIndexes = false }
        func compact(_ name: String, _ bucket: String = "b") async -> AdministrationError? {
            await outcome { () async throws(AdministrationError) in
                try await scene[3].designDocuments.compactViews(
                    ofDesignDocument: name,
                    inBucket: bucket
                )
            }
        }
        // Requested from the node without a part of the bucket.
        let first = await compact("x")
        #expect(first?.isFailure == true)
        #expect(first?.description.contains("not on \(scene.name(2)):") == true)
        scene.members[1].views.withLock { $0.hasIndexes = true }
        #expect(await compact("x") == nil)
        #expect(await compact("empty") == nil)
        #expect(await compact("y") == .unknown)
        #expect(await compact("x", "c") == .unknown)
        let cancelled = await outcome { () async throws(AdministrationError) in
            try await scene[1].designDocuments.cancelViewCompaction(
                ofDesignDocument: "x",
                inBucket: "b"
            )
        }
        #expect(cancelled == nil)
        let orders = scene.members.map { $0.views.withLock { $0.orders } }
        #expect(orders[2].isEmpty)
        // The node that had begun is not asked again; the other one is, until the request ends.
        #expect(orders[0].map(\.isCancellation) == [false, false, true])
        #expect(orders[1].count > 3)
        #expect(orders[1].suffix(2).map(\.isCancellation) == [false, true])
        for orders in orders.prefix(2) {
            #expect(orders.allSatisfy { $0.bucket == "b-uuid" && $0.designDocument == "x" })
        }
        // Compaction of the bucket includes its views. A node without indexes does not fail it.
        scene.members[1].views.withLock { $0.hasIndexes = false }
        guard case .success = await Result(of: try await scene[3].compaction.compactAll("b")) else {
            Issue.record("not all nodes have begun")
            return
        }
        #expect(scene.members[0].plane?.calls.contains("compact b") == true)
        #expect(scene.members[0].views.withLock { $0.orders.count } == 4)
        // Compaction of the documents alone does not.
        guard case .success = await Result(of: try await scene[3].compaction.compact("b")) else {
            Issue.record("not all nodes have begun")
            return
        }
        #expect(scene.members[0].views.withLock { $0.orders.count } == 4)
    }

    @Test func viewsOfANewDesignDocumentAreCompactedOnceTheirIndexesAreOpen() async throws {
        let scene = try ClusterScene(2)
        defer { scene.stop() }
        try await scene.build()
        try await scene.keepFromFailingOver()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        try await scene.createBucket([[one, two], [two, one]])
        #expect(await eventually { scene[1].state.featureLevel == .current })
        let body = Array(#"{"views":{"v":{"map":"function (d) {}"}}}"#.utf8)
        _ = try await scene[1].designDocuments.putDesignDocument("x", body: body, inBucket: "b")
        func compact() async -> AdministrationError? {
            await outcome { () async throws(AdministrationError) in
                try await scene[1].designDocuments.compactViews(
                    ofDesignDocument: "x",
                    inBucket: "b"
                )
            }
        }
        // Each node, the one that is asked and the other one, opens its indexes at the third request.
        for member in scene.members { member.views.withLock { $0.ordersUntilOpen = 2 } }
        #expect(await compact() == nil)
        #expect(scene.members.map { $0.views.withLock { $0.orders.count } } == [3, 3])
        for member in scene.members { member.views.withLock { $0.hasIndexes = false } }
        let failure = await compact()
        #expect(failure?.isFailure == true)
        let text = failure?.description ?? ""
        #expect(text.contains("has not begun on any node: \(scene.name(1)), \(scene.name(2)) "))
        #expect(!text.contains("has begun, but"))
    }

    @Test func compactionOfADesignDocumentThatIsDeletedMeanwhileEnds() async throws {
        let scene = try ClusterScene(1)
        defer { scene.stop() }
        try await scene.build()
        try await scene.createBucket([[NodeNumber(1)]], replicas: 0)
        #expect(await eventually { scene[1].state.featureLevel == .current })
        let body = Array(#"{"views":{"v":{"map":"function (d) {}"}}}"#.utf8)
        _ = try await scene[1].designDocuments.putDesignDocument("x", body: body, inBucket: "b")
        scene.members[0].views.withLock { $0.hasIndexes = false }
        async let compaction = outcome { () async throws(AdministrationError) in
            try await scene[1].designDocuments.compactViews(ofDesignDocument: "x", inBucket: "b")
        }
        #expect(await eventually { !scene.members[0].views.withLock { $0.orders.isEmpty } })
        _ = try await scene[1].designDocuments.deleteDesignDocument("x", inBucket: "b")
        #expect(await compaction == .unknown)
    }
}

extension AdministrationError {
    fileprivate var isFailure: Bool { if case .failed = self { true } else { false } }
}
