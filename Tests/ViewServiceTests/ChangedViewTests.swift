import Bytes
import Foundation
import Indexing
import Persistence
import ScriptProcesses
import TestSupport
import Testing
import ViewService
import Vocabulary

/// What a service keeps of a changed view until its new definition is complete on all nodes.
@Suite(.serialized) struct ChangedViewTests {
    private let world = ServiceWorld()
    private static let source = "function (keys, values) { return values.length; }"
    private var old: ViewDefinition {
        world.view("d/a", "function (doc) { emit(doc.n, 1); }", .sum)
    }
    private var middle: ViewDefinition { world.view("d/a", "function (doc) { emit(doc.n, 2); }") }
    private var new: ViewDefinition {
        world.view("d/a", "function (doc) { emit(doc.n, 3); }", .custom(Self.source))
    }

    private func fill(_ count: Int = 40) {
        for number in 0..<count { world.changes.put("k\(number)", "{\"n\":\(number)}") }
    }

    private func previous(_ service: IndexService, _ view: ViewDefinition) -> ViewDefinition? {
        service.reputation(of: view, ofBucket: "b1").previous
    }

    private func isOpen(_ service: IndexService, _ view: ViewDefinition) -> Bool {
        service.index(IndexSigning.signature(of: view), ofBucket: "b1") != nil
    }

    private func hasFile(_ service: IndexService, _ view: ViewDefinition) -> Bool {
        FileManager.default.fileExists(atPath: world.path(service, view))
    }

    /// A service with the old definition, complete on all nodes.
    private func settledService() throws -> IndexService {
        let service = try world.service {
            ($0.graceNanoseconds, $0.retirementNanoseconds) = (50_000_000, 50_000_000)
        }
        service.reconcile([world.bucket([old])])
        try world.awaitFresh(service, old)
        service.retirePrevious(of: old, ofBucket: "b1")
        return service
    }

    @Test func previousIndexIsUpdatedUntilTheNewOneIsComplete() throws {
        defer { world.stop() }
        fill()
        let service = try settledService()
        #expect(service.reputation(of: old, ofBucket: "b1").isSettled)
        service.reconcile([world.bucket([new])])
        #expect(previous(service, new) == old)
        #expect(!service.reputation(of: new, ofBucket: "b1").isSettled)
        #expect(service.definition("a", in: "d", ofBucket: "b1") == new)
        world.changes.put("later", #"{"n":1000}"#)
        let index = try world.awaitFresh(service, old)
        try world.awaitFresh(service, new)
        let reports = try world.reports(service)
        #expect(reports.map(\.status.rows) == [41, 41])
        #expect(reports.map(\.views.count).sorted() == [0, 1], "a view has one index in reports")
        service.retirePrevious(of: new, ofBucket: "b1")
        #expect(previous(service, new) == nil)
        #expect(service.reputation(of: new, ofBucket: "b1").isSettled)
        try waitUntil("the file is removed") { !hasFile(service, old) }
        #expect(!isOpen(service, old) && isOpen(service, new))
        #expect(throws: (any Error).self) { try index.file.head() }
        try world.stop(service)
    }

    @Test func previousIndexFollowsTheServedVBuckets() throws {
        defer { world.stop() }
        fill()
        let service = try settledService()
        let kept = VBucketID(0)
        service.reconcile([world.bucket([new], served: [kept], revision: 2)])
        let expected = UInt64(world.changes.documents(of: kept))
        try waitUntil("both indexes have only that vBucket") {
            let rows = try world.reports(service).map(\.status.rows)
            return rows == [expected, expected]
        }
        try world.stop(service)
    }

    @Test func queryThatHasBegunReadsTheRetiredIndex() throws {
        defer { world.stop() }
        fill()
        let service = try world.service()
        service.reconcile([world.bucket([new])])
        try world.awaitFresh(service, new)
        service.retirePrevious(of: new, ofBucket: "b1")
        service.reconcile([world.bucket([old])])
        try world.awaitFresh(service, old)
        let slot = try #require(IndexSigning.slotSignature(of: new))
        let function = service.reduceFunction(slot, ofBucket: "b1")
        #expect(function?.source == Self.source)
        service.retirePrevious(of: old, ofBucket: "b1")
        #expect(previous(service, old) == nil)
        #expect(isOpen(service, new) && service.reduceFunction(slot, ofBucket: "b1") == function)
        try world.stop(service)
    }

    // MARK: Queries that have begun

    /// Its rows need more batches than a query may send without credit.
    private var large: ViewDefinition {
        world.view("d/a", "function (doc) { emit(doc.n, new Array(1025).join('x')); }")
    }

    /// A query that waits for credit.
    private func query(_ service: IndexService, _ choice: IndexChoice) throws -> Replies {
        let replies = Replies()
        let call = service.respond(to: world.request(choice)) { replies.add($0) }
        replies.begin(call, addsCredit: false)
        try waitUntil("the credit is used up") {
            replies.batches.count == RowMerge.creditMax
        }
        return replies
    }

    @Test func queryThatReadsThePreviousIndexIsNotEndedByTheNewOne() throws {
        defer { world.stop() }
        fill(400)
        let service = try world.service()
        service.reconcile([world.bucket([large])])
        try world.awaitFresh(service, large)
        service.retirePrevious(of: large, ofBucket: "b1")
        service.reconcile([world.bucket([new])])
        let choice = IndexChoice(
            current: IndexSigning.signature(of: new),
            previous: IndexSigning.signature(of: large),
            usesPrevious: true
        )
        let replies = try query(service, choice)
        try world.awaitFresh(service, new)
        service.retirePrevious(of: new, ofBucket: "b1")
        for _ in 0..<400 { replies.addCredit() }
        try waitUntil("the query ends") { replies.last != nil }
        #expect(replies.last == .end && replies.batches.reduce(0) { $0 + $1.count } == 400)
        try world.stop(service)
    }

    @Test func queryOfADeletedViewEndsAndTheFilesAreRemoved() throws {
        defer { world.stop() }
        fill(400)
        let service = try world.service()
        service.reconcile([world.bucket([large])])
        try world.awaitFresh(service, large)
        let replies = try query(service, IndexChoice(current: IndexSigning.signature(of: large)))
        service.reconcile([])
        try waitUntil("the directory is removed") { world.files() == nil }
        replies.addCredit()
        try waitUntil("the query ends") { replies.last != nil }
        guard case .failed(let reason)? = replies.last else {
            Issue.record("the query did not fail")
            return
        }
        #expect(reason.contains("Retry the query"))
        try world.stop(service)
    }

    // MARK: Later changes

    @Test func secondChangeDropsTheDefinitionInTheMiddle() throws {
        defer { world.stop() }
        fill()
        let service = try settledService()
        service.reconcile([world.bucket([middle])])
        try world.awaitFresh(service, middle)
        service.reconcile([world.bucket([new])])
        #expect(previous(service, new) == old)
        try waitUntil("the file in the middle is removed") { !hasFile(service, middle) }
        service.retirePrevious(of: middle, ofBucket: "b1")
        #expect(previous(service, new) == old)
        try world.awaitFresh(service, new)
        #expect(isOpen(service, old) && hasFile(service, old))
        try world.stop(service)
    }

    @Test func restartKeepsThePreviousDefinitionAndMapsNothingOfItAgain() throws {
        defer { world.stop() }
        fill(200)
        let first = try settledService()
        first.reconcile([world.bucket([middle])])
        try world.awaitFresh(first, middle)
        try waitUntil("the definitions are stored") {
            world.files()?.contains("definitions") ?? false
        }
        try world.stop(first)
        let delivered = world.changes.delivered
        // The view was changed again while the node was down.
        let second = try world.service()
        second.reconcile([world.bucket([new])])
        #expect(previous(second, new) == old)
        try world.awaitFresh(second, old)
        try world.awaitFresh(second, new)
        #expect(world.changes.delivered == delivered + 200)
        try world.stop(second)
    }

    /// The step in which the node follows both changes, while it runs or at its start.
    @Test(arguments: [false, true])
    func viewThatWasMadeAgainInOneStepHasNoPreviousDefinition(_ isRestarted: Bool) throws {
        defer { world.stop() }
        fill()
        let revisions = [(2, 1), (3, 2), (1, 3)].map { DocumentRevision(number: $0, digest: $1) }
        var service = try settledService()
        service.reconcile([world.bucket([old], documents: ["d": revisions[0]])])
        // A change alone keeps the previous definition.
        service.reconcile([world.bucket([middle], documents: ["d": revisions[1]])])
        #expect(previous(service, middle) == old)
        if isRestarted {
            try world.awaitFresh(service, middle)
            try waitUntil("the definitions are stored") {
                world.files()?.contains("definitions") ?? false
            }
            try world.stop(service)
            service = try world.service { $0.graceNanoseconds = 50_000_000 }
        }
        service.reconcile([world.bucket([new], documents: ["d": revisions[2]])])
        #expect(previous(service, new) == nil)
        #expect(!service.reputation(of: new, ofBucket: "b1").isSettled)
        try world.awaitFresh(service, new)
        try waitUntil("the old file is removed") { !hasFile(service, old) }
        try world.stop(service)
    }

    @Test func damagedDefinitionsFileLosesOnlyThePreviousDefinition() throws {
        defer { world.stop() }
        fill()
        let first = try settledService()
        try waitUntil("the definitions are stored") {
            world.files()?.contains("definitions") ?? false
        }
        try world.stop(first)
        try world.write("no record", to: "\(world.directory)/indexes/b1/definitions")
        let second = try world.service()
        second.reconcile([world.bucket([new])])
        #expect(previous(second, new) == nil)
        try world.awaitFresh(second, new)
        try world.stop(second)
    }

    @Test func changeOfTheReduceFunctionKeepsTheIndex() throws {
        defer { world.stop() }
        fill()
        let service = try settledService()
        let index = try world.awaitFresh(service, old)
        let delivered = world.changes.delivered
        for reduce: ViewDefinition.Reduce? in [.count, .stats, nil, .custom(Self.source)] {
            let changed = world.view("d/a", old.map, reduce)
            service.reconcile([world.bucket([changed])])
            #expect(service.reputation(of: changed, ofBucket: "b1") == (true, nil))
            #expect(try world.awaitFresh(service, changed) === index)
        }
        #expect(world.changes.delivered == delivered)
        try world.stop(service)
    }

    @Test func deletionOfAChangedViewEndsBothDefinitions() throws {
        defer { world.stop() }
        fill()
        let other = world.view("e/b", "function (doc, meta) { emit(meta.id, null); }")
        let service = try settledService()
        service.reconcile([world.bucket([new, other])])
        try world.awaitFresh(service, new)
        service.reconcile([world.bucket([other])])
        try waitUntil("both files are removed") {
            !hasFile(service, old) && !hasFile(service, new)
        }
        service.reconcile([world.bucket([new, other])])
        #expect(previous(service, new) == nil)
        try world.stop(service)
    }
}
