import Bytes
import Foundation
import Indexing
import Persistence
import ScriptProcesses
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary
import Wire

/// Which indexes a service runs, and what becomes of their files.
@Suite(.serialized) struct IndexServiceTests {
    private let world = ServiceWorld()
    private static let byNumber = "function (doc) { emit(doc.n, null); }"
    private static let byID = "function (doc, meta) { emit(meta.id, null); }"

    private func fill(_ count: Int = 40) {
        for number in 0..<count { world.changes.put("k\(number)", "{\"n\":\(number)}") }
    }

    // MARK: Identity

    @Test func viewsWithEqualMapsShareAnIndexAcrossDesignDocuments() throws {
        defer { world.stop() }
        fill()
        let one = world.view("d/one", IndexServiceTests.byNumber)
        let two = world.view("e/two", IndexServiceTests.byNumber, .count)
        let three = world.view("e/three", IndexServiceTests.byID)
        let service = try world.service()
        service.reconcile([world.bucket([one, two, three])])
        try world.awaitFresh(service, one)
        try world.awaitFresh(service, three)
        let reports = try world.reports(service)
        #expect(reports.count == 2)
        let shared = try #require(reports.first { $0.signature == IndexSigning.signature(of: two) })
        #expect(shared.views.map(\.view) == ["one", "two"])
        #expect(shared.status.rows == 40 && shared.status.progress == 1 && shared.isOpen)
        #expect(shared.diskBytes > 0 && shared.memoryBytes > 0 && shared.fault == nil)
        #expect(service.definition("two", in: "e", ofBucket: "b1") == two)
        #expect(service.definition("two", in: "d", ofBucket: "b1") == nil)
        try world.stop(service)
    }

    @Test func signatureDependsOnEverythingThatDeterminesRowsAndOnNothingElse() {
        defer { world.stop() }
        let map = IndexServiceTests.byNumber
        let one = world.view("d/a", map)
        let other = ViewDefinition(
            designDocument: "d",
            view: "a",
            map: map,
            indexesTombstones: true
        )
        #expect(
            IndexSigning.signature(of: one)
                == IndexSigning.signature(of: world.view("e/b", map, .sum))
        )
        #expect(IndexSigning.signature(of: one) != IndexSigning.signature(of: other))
        #expect(
            IndexSigning.signature(of: one)
                != IndexSigning.signature(of: world.view("d/a", map + " "))
        )
    }

    @Test func sumAndStatsShareASlotAndOtherReductionsHaveTheirOwn() {
        defer { world.stop() }
        func slot(_ reduce: ViewDefinition.Reduce?) -> IndexSignature? {
            IndexSigning.slotSignature(of: world.view("d/a", IndexServiceTests.byNumber, reduce))
        }
        #expect(slot(nil) == nil)
        #expect(slot(.sum) == slot(.stats))
        let others = [
            slot(.sum), slot(.count), slot(.custom("f")), slot(.custom("g")),
            slot(.custom("_count")),
        ]
        #expect(Set(others).count == others.count)
    }

    @Test func equalReduceFunctionsOfBucketsAreNotOneFunction() throws {
        defer { world.stop() }
        let source = "function (keys, values) { return values.length; }"
        let view = world.view("d/a", IndexServiceTests.byNumber, .custom(source))
        let service = try world.service()
        let slot = try #require(IndexSigning.slotSignature(of: view))
        let plain = world.bucket([world.view("d/a", IndexServiceTests.byNumber)], uuid: "b3")
        service.reconcile([world.bucket([view]), world.bucket([view], uuid: "b2"), plain])
        let function = try #require(service.reduceFunction(slot, ofBucket: "b1"))
        #expect(function.source == source && function.use == .reduce)
        let other = try #require(service.reduceFunction(slot, ofBucket: "b2"))
        #expect(other.source == source && other.number != function.number)
        #expect(function.bucket == "b1" && other.bucket == "b2")
        #expect(service.reduceFunction(slot, ofBucket: "b3") == nil)
        service.reconcile([world.bucket([view])])
        #expect(service.reduceFunction(slot, ofBucket: "b1") == function)
        service.reconcile([])
        #expect(service.reduceFunction(slot, ofBucket: "b1") == nil)
        try world.stop(service)
    }

    @Test func signedViewHasTheNamesOfItsNewestDefinition() throws {
        defer { world.stop() }
        func signed(_ service: IndexService, _ bucket: String = "b1") -> SignedView? {
            service.signedView("a", in: "d", ofBucket: bucket)
        }
        let first = world.view("d/a", IndexServiceTests.byNumber)
        let reduced = world.view("d/a", IndexServiceTests.byNumber, .sum)
        let changed = world.view("d/a", IndexServiceTests.byID, .count)
        let service = try world.service()
        #expect(signed(service) == nil)
        for definition in [first, reduced, changed, first] {
            service.reconcile([world.bucket([definition]), world.bucket([first], uuid: "b2")])
            #expect(signed(service)?.definition == definition)
            #expect(signed(service)?.index == IndexSigning.signature(of: definition))
            #expect(signed(service)?.slot == IndexSigning.slotSignature(of: definition))
            #expect(signed(service, "b2")?.index == IndexSigning.signature(of: first))
        }
        // Another map of the cluster keeps the views.
        service.reconcile([world.bucket([first], revision: 2)])
        #expect(signed(service)?.index == IndexSigning.signature(of: first))
        #expect(signed(service, "b2") == nil)
        service.reconcile([])
        #expect(signed(service) == nil)
        try world.stop(service)
    }

    // MARK: Life

    /// With quick lanes each index works before its keeper continues: one that opened its file before it had
    /// the served vBuckets would remove all rows.
    @Test(arguments: [false, true])
    func restartContinuesFromTheFileAndMapsNothingAgain(_ hasQuickLanes: Bool) throws {
        defer { world.stop() }
        fill(200)
        let view = world.view("d/a", IndexServiceTests.byNumber)
        let first = try world.service()
        first.reconcile([world.bucket([view])])
        try world.awaitFresh(first, view)
        try world.stop(first)
        let delivered = world.changes.delivered
        let lanes = world.environment.lanes
        let second = try world.service(lanes: hasQuickLanes ? quickIndexLanes(over: lanes) : lanes)
        second.reconcile([world.bucket([view])])
        world.changes.put("k7", #"{"n":1000}"#)
        try world.awaitFresh(second, view)
        #expect(world.changes.delivered == delivered + 1)
        #expect(try world.reports(second).first?.status.rows == 200)
        try world.stop(second)
    }

    @Test func indexOfARemovedViewEndsAndItsFileIsRemovedAfterTheGrace() throws {
        defer { world.stop() }
        fill()
        let kept = world.view("d/kept", IndexServiceTests.byNumber)
        let removed = world.view("d/removed", IndexServiceTests.byID)
        let service = try world.service { $0.graceNanoseconds = 50_000_000 }
        service.reconcile([world.bucket([kept, removed])])
        let index = try world.awaitFresh(service, removed)
        try world.awaitFresh(service, kept)
        service.reconcile([world.bucket([kept])])
        #expect(service.definition("removed", in: "d", ofBucket: "b1") == nil)
        try waitUntil("the file is removed") {
            !FileManager.default.fileExists(atPath: world.path(service, removed))
        }
        #expect(service.index(IndexSigning.signature(of: removed), ofBucket: "b1") == nil)
        #expect(throws: (any Error).self) { try index.file.head() }
        #expect(FileManager.default.fileExists(atPath: world.path(service, kept)))
        try world.awaitFresh(service, kept)
        try world.stop(service)
    }

    @Test func viewThatReturnsWithinTheGraceMapsNothingAgain() throws {
        defer { world.stop() }
        fill()
        let view = world.view("d/a", IndexServiceTests.byNumber)
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        let delivered = world.changes.delivered
        service.reconcile([world.bucket([])])
        // The old index may still be closing: the file must not be open twice.
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        service.reconcile([world.bucket([])])
        try waitUntil("the index is closed") { try world.reports(service).isEmpty }
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        #expect(world.changes.delivered == delivered)
        try world.stop(service)
    }

    @Test func filesThatNoViewNeedsAreRemovedAtTheStart() throws {
        defer { world.stop() }
        fill()
        let view = world.view("d/a", IndexServiceTests.byNumber)
        let service = try world.service()
        let unknown = world.path(service, world.view("d/b", "function () {}"))
        try world.write("an index", to: unknown)
        try world.write("an index", to: "\(world.directory)/indexes/gone/x.sqlite")
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        try waitUntil("the files are removed") {
            !FileManager.default.fileExists(atPath: unknown) && world.files("gone") == nil
        }
        try world.stop(service)
    }

    @Test func directoryOfABucketIsRemovedWhenTheBucketIsGoneOrFlushed() throws {
        defer { world.stop() }
        fill()
        let view = world.view("d/a", IndexServiceTests.byNumber)
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        service.reconcile([world.bucket([view], uuid: "b2")])
        try waitUntil("the directory is removed") { world.files() == nil }
        try world.awaitFresh(service, view, uuid: "b2")
        service.reconcile([])
        try waitUntil("the directory is removed") { world.files("b2") == nil }
        #expect(service.bucket("b2") == nil)
        try world.stop(service)
    }

    @Test func indexHasRowsOfCurrentlyServedVBuckets() throws {
        defer { world.stop() }
        fill()
        let view = world.view("d/a", IndexServiceTests.byNumber)
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        let index = try world.awaitFresh(service, view)
        let kept = VBucketID(0)
        service.reconcile([world.bucket([view], served: [kept], revision: 2)])
        let expected = UInt64(world.changes.documents(of: kept))
        try waitUntil("the other vBuckets' rows are removed") {
            try world.reports(service).first?.status.rows == expected
        }
        service.reconcile([world.bucket([view], revision: 3)])
        #expect(try world.awaitFresh(service, view) === index)
        #expect(try world.reports(service).first?.status.rows == 40)
        try world.stop(service)
    }
}
