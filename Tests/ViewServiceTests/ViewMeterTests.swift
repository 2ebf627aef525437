import Bytes
import Indexing
import LinuxPlatform
import ScriptProcesses
import Scripting
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// What is measured of a node's views.
@Suite(.serialized) struct ViewMeterTests {
    private let world = ServiceWorld()

    private func fill(_ count: Int) {
        for number in 0..<count { world.changes.put("k\(number)", "{\"n\":\(number)}") }
    }

    /// The first measurement that fulfils a condition.
    private func reading(
        _ meter: ViewMeter,
        _ what: String,
        _ isMeant: (ViewReading) -> Bool
    ) throws -> ViewReading {
        var found = ViewReading()
        try waitUntil(what) {
            found = try #require(meter.read())
            return isMeant(found)
        }
        return found
    }

    @Test func nodeWithoutAnIndexServiceIsNotMeasured() {
        defer { world.stop() }
        let meter = ViewMeter(world.environment.time, of: { nil })
        #expect(meter.read() == nil)
    }

    @Test func completeIndexIsMeasuredWithItsRowsChangesAndBytes() throws {
        defer { world.stop() }
        fill(40)
        let view = world.view("d/v", "function (doc) { emit(doc.n, null); }")
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        let meter = ViewMeter(world.environment.time, of: { service })
        let found = try reading(meter, "the index is measured as complete") { reading in
            reading.indexes.first?.status.rows == 40 && reading.indexes.first?.isBuilding == false
        }
        let index = try #require(found.indexes.first)
        #expect(found.indexes.count == 1 && index.bucketName == "beer")
        #expect(index.status.changesDone == 40 && index.status.changesTotal == 40)
        #expect(index.usedBytes > 0 && index.usedBytes % 4_096 == 0)
        #expect(index.diskBytes > 0)
        #expect(found.scripts.works == 0)
        #expect(found.queries == [:])
        try world.stop(service)
    }

    @Test func errorsOfAFunctionAreMeasuredWithTheirDocuments() throws {
        defer { world.stop() }
        fill(3)
        let view = world.view("d/v", "function (doc) {\n  emit(doc.none.here, null);\n}")
        let service = try world.service()
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        let meter = ViewMeter(world.environment.time, of: { service })
        let found = try reading(meter, "the errors are measured") { reading in
            reading.indexes.first?.status.errors.counts[.threw] == 3
        }
        let errors = try #require(found.indexes.first?.status.errors.recent)
        #expect(Set(errors.map(\.id)) == ["k0", "k1", "k2"])
        #expect(errors.allSatisfy { $0.line == 2 && !$0.text.isEmpty })
        try world.stop(service)
    }
}
