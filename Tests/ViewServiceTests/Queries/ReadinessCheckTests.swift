import Bytes
import Indexing
import TestSupport
import Testing
import ViewService
import Vocabulary

/// How a node finds out that a new index is complete on all nodes.
@Suite(.timeLimit(.minutes(2))) struct ReadinessCheckTests {
    @Test func definitionIsCompleteOnceAllNodesHaveTheIndex() async throws {
        let (own, queries) = (ServiceWorld(), RunWorld([1, 2]))
        defer {
            queries.stop()
            own.stop()
        }
        let view = own.view("d/a", "function (doc) { emit(doc.n, null); }")
        let service = try own.service()
        service.reconcile([own.bucket([view], uuid: RunWorld.bucket.uuid)])
        try own.awaitFresh(service, view, uuid: RunWorld.bucket.uuid)
        let signature = IndexSigning.signature(of: view)
        let isBuilt = Guarded(false)
        queries.nodes.follow { _, node in
            let isReady = node == 1 || isBuilt.withLock { $0 }
            return isReady ? ScriptedNodes.rows([]) : [.reply(.notReady(signature))]
        }
        let dependencies = queries.dependencies
        let check = ReadinessCheck { (service, dependencies) }
        check.viewsChanged()
        try await waitUntil("both nodes are asked twice") { queries.nodes.calls.count >= 4 }
        #expect(!service.reputation(of: view, ofBucket: RunWorld.bucket.uuid).isSettled)
        isBuilt.withLock { $0 = true }
        try await waitUntil("the definition is settled") {
            service.reputation(of: view, ofBucket: RunWorld.bucket.uuid).isSettled
        }
        #expect(service.unsettled(ofBucket: RunWorld.bucket.uuid).isEmpty)
        let requests = queries.nodes.calls.map(\.request)
        #expect(requests.allSatisfy { $0.scan.rowsMax == 0 && $0.index.choice.requiresReady })
        check.stop()
        try own.stop(service)
    }

    @Test func definitionStaysIncompleteWhileANodeDoesNotAnswer() async throws {
        let (own, queries) = (ServiceWorld(), RunWorld([1, 2]))
        defer {
            queries.stop()
            own.stop()
        }
        let view = own.view("d/a", "function (doc) { emit(doc.n, null); }")
        let service = try own.service()
        service.reconcile([own.bucket([view], uuid: RunWorld.bucket.uuid)])
        try own.awaitFresh(service, view, uuid: RunWorld.bucket.uuid)
        queries.nodes.follow { _, node in
            node == 1 ? ScriptedNodes.rows([]) : [.reply(.failed("The disk is full."))]
        }
        let dependencies = queries.dependencies
        let check = ReadinessCheck { (service, dependencies) }
        check.viewsChanged()
        try await waitUntil("both nodes are asked twice") { queries.nodes.calls.count >= 4 }
        #expect(!service.reputation(of: view, ofBucket: RunWorld.bucket.uuid).isSettled)
        check.stop()
        try own.stop(service)
    }
}
