import Bytes
import Foundation
import Indexing
import Scripting
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// Indexes without work: they close their files, and nothing that a client sees changes.
@Suite(.serialized) struct RestingIndexTests {
    private let world = ServiceWorld()
    private static let count = 6

    private var views: [ViewDefinition] {
        (0..<RestingIndexTests.count).map {
            world.view("d/v\($0)", "function (doc, meta) { emit(doc.n, \($0)); }")
        }
    }

    /// Indexes rest at the first check that finds nothing to do.
    private func service() throws -> IndexService {
        try world.service {
            $0.rest.quietNanoseconds = 0
            $0.rest.quietNanosecondsMax = 0
        }
    }

    /// The descriptors of this process that lead to index files of this test.
    private func openFiles() throws -> [String] {
        let folder = "/proc/self/fd"
        let names = try FileManager.default.contentsOfDirectory(atPath: folder)
        let targets = names.compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")
        }
        return targets.filter { $0.hasPrefix(world.directory + "/indexes/") }
    }

    private func awaitRest() throws {
        try waitUntil("all indexes rest") { try openFiles().isEmpty }
    }

    private func rows(_ service: IndexService, _ view: ViewDefinition) throws -> Int {
        let request = world.request(IndexChoice(current: IndexSigning.signature(of: view)))
        let replies = Replies()
        replies.begin(service.respond(to: request) { replies.add($0) }, addsCredit: true)
        try waitUntil("the query ends") { replies.last != nil }
        #expect(replies.last == .end)
        return replies.rows().count
    }

    @Test func restingIndexHasNoDescriptorAndAnswersQueries() throws {
        defer { world.stop() }
        for number in 0..<20 { world.changes.put("k\(number)", "{\"n\":\(number)}") }
        let service = try service()
        service.reconcile([world.bucket(views)])
        for view in views { try world.awaitFresh(service, view) }
        try awaitRest()
        for view in views { #expect(try rows(service, view) == 20) }
        try awaitRest()
        try world.stop(service)
    }

    @Test func reportOfRestingIndexIsThatOfTheOpenOne() throws {
        defer { world.stop() }
        for number in 0..<20 { world.changes.put("k\(number)", "{\"n\":\(number)}") }
        world.changes.put("bad", "null")
        let view = world.view("d/v", "function (doc, meta) { emit(doc.n, null); }")
        let service = try service()
        service.reconcile([world.bucket([view])])
        try world.awaitFresh(service, view)
        try awaitRest()
        let report = try #require(try world.reports(service).first)
        #expect(report.isOpen && report.fault == nil && report.status.isComplete)
        #expect(report.status.rows == 20 && report.memoryBytes == 0)
        #expect(report.fileBytes > 0 && report.diskBytes == report.fileBytes)
        #expect(report.status.errors.counts == [.threw: 1])
        #expect(try openFiles().isEmpty)
        // The counts of errors are not in the file.
        let index = try world.awaitFresh(service, view)
        let errors = Guarded<ScriptErrors?>(nil)
        index.report { found in errors.withLock { $0 = found } }
        try waitUntil("the index reports") { errors.withLock { $0 } != nil }
        #expect(errors.withLock { $0?.counts } == [.threw: 1])
        try world.stop(service)
    }

    @Test func changeOpensAllIndexesOfItsBucket() throws {
        defer { world.stop() }
        world.changes.put("k0", "{\"n\":0}")
        let service = try service()
        service.reconcile([world.bucket(views)])
        for view in views { try world.awaitFresh(service, view) }
        for number in 1..<4 {
            try awaitRest()
            world.changes.put("k\(number)", "{\"n\":\(number)}")
            // Without a query that requires the change.
            try waitUntil("all indexes have the change") {
                try world.reports(service).allSatisfy { $0.status.rows == UInt64(number + 1) }
            }
        }
        try world.stop(service)
    }

    /// Changes, queries and rests at the same time: no answer lacks a change that was made before.
    @Test func answersDuringRestsIncludeEveryChange() throws {
        defer { world.stop() }
        let service = try service()
        let views = Array(views.prefix(3))
        service.reconcile([world.bucket(views)])
        for number in 0..<30 {
            world.changes.put("k\(number)", "{\"n\":\(number)}")
            Thread.sleep(forTimeInterval: Double((number * 7) % 11) / 20)
            if number % 5 == 0 { try world.awaitFresh(service, views[number % 3]) }
        }
        try waitUntil("all indexes have all changes") {
            try world.reports(service).allSatisfy { $0.status.rows == 30 }
        }
        try world.stop(service)
    }

    @Test func restingIndexFollowsTheMapAndIsCompactedAndRemoved() throws {
        defer { world.stop() }
        for number in 0..<20 { world.changes.put("k\(number)", "{\"n\":\(number)}") }
        let service = try service()
        let served = Array(MemoryChanges.vBuckets.prefix(2))
        service.reconcile([world.bucket(views)])
        for view in views { try world.awaitFresh(service, view) }
        try awaitRest()
        #expect(service.compact("d", ofBucket: "b1"))
        try awaitRest()
        service.reconcile([world.bucket(views, served: served, revision: 2)])
        let kept = served.reduce(0) { $0 + world.changes.documents(of: $1) }
        try waitUntil("the rows of other vBuckets are removed") {
            try world.reports(service).allSatisfy { $0.status.rows == UInt64(kept) }
        }
        try awaitRest()
        service.reconcile([world.bucket([], revision: 3)])
        try waitUntil("no index is reported") { try world.reports(service).isEmpty }
        try world.stop(service)
    }
}
