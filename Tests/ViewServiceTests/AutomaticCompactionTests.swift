import Indexing
import TestSupport
import Testing
import ViewService

/// Compaction without a request.
@Suite(.serialized) struct AutomaticCompactionTests {
    private static let count = 4_000

    @Test func indexWithManyUnusedPagesIsCompactedOnceTheThresholdIsSet() throws {
        let world = ServiceWorld()
        defer { world.stop() }
        let text = String(repeating: "long ", count: 100)
        for number in 0..<Self.count {
            world.changes.put("k\(number)", "{\"n\":\(number),\"text\":\"\(text)\"}")
        }
        let service = try world.service { $0.checkNanoseconds = 20_000_000 }
        var terms = IndexTerms()
        (terms.compaction.percent, terms.compaction.bytes) = (nil, nil)
        service.set(terms)
        let view = world.view("d/a", "function (doc) { emit(doc.n, doc.text); }", .count)
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        for number in 0..<Self.count where number % 8 != 0 { world.changes.delete("k\(number)") }
        try world.awaitFresh(service, view)
        let sparse = try #require(try world.reports(service).first)
        #expect(sparse.fileBytes > 2 * sparse.usedBytes)

        service.set(IndexTerms())
        try waitUntil("the index is compacted") {
            let report = try world.reports(service).first
            return report.map { !$0.status.isCompacting && $0.fileBytes < sparse.fileBytes / 2 }
                ?? false
        }
        let compact = try #require(try world.reports(service).first)
        #expect(compact.status.rows == UInt64(Self.count / 8))
        #expect(compact.status.copied == 0 && compact.status.toCopy == 0)
        try world.stop(service)
    }
}
