import Bytes
import Indexing
import Testing
import ViewService

/// How many indexes are built at a time, and that each of them is built.
@Suite(.serialized) struct IndexBuildsTests {
    @Test func waitingBuildBeginsWhenAnotherLeaves() {
        let builds = IndexBuilds(1)
        let begun = Guarded<[String]>([])
        var first: IndexBuilds.Build? = builds.enter { begun.withLock { $0.append("first") } }
        let second = builds.enter { begun.withLock { $0.append("second") } }
        #expect(first?.hasBegun == true && !second.hasBegun)
        #expect(begun.withLock { $0.isEmpty })
        first = nil
        #expect(second.hasBegun)
        #expect(begun.withLock { $0 } == ["second"])
    }

    @Test func buildCancelledWhileItWaitsIsNotStarted() {
        let builds = IndexBuilds(1)
        let begun = Guarded<[String]>([])
        let first = builds.enter {}
        var second: IndexBuilds.Build? = builds.enter { begun.withLock { $0.append("second") } }
        let third = builds.enter { begun.withLock { $0.append("third") } }
        second = nil
        builds.limit(to: 2)
        #expect(first.hasBegun && third.hasBegun && second == nil)
        #expect(begun.withLock { $0 } == ["third"])
    }

    @Test func allIndexesAreBuiltWhereOneIsBuiltAtATime() throws {
        let world = ServiceWorld()
        defer { world.stop() }
        for number in 0..<500 { world.changes.put("k\(number)", "{\"n\":\(number)}") }
        let service = try world.service()
        var terms = IndexTerms()
        terms.buildsMax = 1
        service.set(terms)
        let views = (0..<5).map { number in
            world.view("d/v\(number)", "function (doc) { emit(doc.n + \(number), null); }")
        }
        service.reconcile([world.bucket(views)])
        for view in views { try world.awaitFresh(service, view) }
        let reports = try world.reports(service)
        #expect(reports.count == 5)
        #expect(reports.allSatisfy { $0.status.rows == 500 && !$0.status.awaitsBuild })
        try world.stop(service)
    }

    /// More indexes than lanes: the last ones share lanes with the first.
    @Test func moreIndexesThanLanesAreBuiltAndStopped() throws {
        let world = ServiceWorld()
        defer { world.stop() }
        for number in 0..<20 { world.changes.put("k\(number)", "{\"n\":\(number)}") }
        let service = try world.service()
        let views = (0..<70).map { number in
            world.view("d/v\(number)", "function (doc) { emit(doc.n + \(number), null); }")
        }
        service.reconcile([world.bucket(views)])
        for view in views { try world.awaitFresh(service, view) }
        // Indexes that share a lane with removed ones continue.
        service.reconcile([world.bucket(Array(views.dropFirst(10)), revision: 2)])
        world.changes.put("last", "{\"n\":1}")
        for view in views.dropFirst(10) { try world.awaitFresh(service, view) }
        try world.stop(service)
    }
}
