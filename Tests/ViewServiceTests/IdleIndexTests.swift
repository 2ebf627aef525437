import Bytes
import Indexing
import Persistence
import Seams
import TestSupport
import Testing
import ViewService

/// The memory of indexes that no query uses.
@Suite(.serialized) struct IdleIndexTests {
    private let world = ServiceWorld()

    private func begin(
        _ service: IndexService,
        _ view: ViewDefinition,
        addsCredit: Bool
    ) -> Replies {
        let request = world.request(IndexChoice(current: IndexSigning.signature(of: view)))
        let replies = Replies()
        let call = service.respond(to: request) { replies.add($0) }
        replies.begin(call, addsCredit: addsCredit)
        return replies
    }

    /// Asks for all rows, and moves the clock until the index has freed what it kept for the query.
    private func queryUntilFreed(
        _ service: IndexService,
        _ view: ViewDefinition,
        _ index: ViewIndex,
        _ clock: ManualTime
    ) throws {
        let replies = begin(service, view, addsCredit: true)
        try waitUntil("the query ends") { replies.last != nil }
        #expect(replies.last == .end && replies.rows().count == 2_000)
        #expect(index.keptBytes > 0)
        try awaitFreed(index, clock)
    }

    private func awaitFreed(_ index: ViewIndex, _ clock: ManualTime) throws {
        let bytes = index.file.memoryBytes
        try waitUntil("the index has freed its memory") {
            // A check that finds the mark of the query counts its own time.
            clock.advance(by: IdleRule.idleNanosecondsMin)
            return index.keptBytes == 0 && index.file.memoryBytes < bytes - (64 << 10)
        }
    }

    @Test func indexWithoutAQueryFreesItsMemoryAndAnIndexThatIsReadDoesNot() throws {
        defer { world.stop() }
        let text = String(repeating: "text ", count: 40)
        for number in 0..<2_000 {
            world.changes.put("k\(number)", "{\"n\":\(number),\"text\":\"\(text)\"}")
        }
        let clock = ManualTime(over: world.environment.time)
        let service = try world.service(time: clock) { $0.checkNanoseconds = 5_000_000 }
        let views = ["n", "-n"].map {
            world.view("d/\($0)", "function (doc, meta) { var n = doc.n; emit(\($0), doc.text); }")
        }
        service.reconcile([world.bucket(views)])
        let (idle, read) = (
            try world.awaitFresh(service, views[0]), try world.awaitFresh(service, views[1])
        )
        let open = begin(service, views[1], addsCredit: false)
        try waitUntil("the query waits for its client") {
            open.batches.count == RowMerge.creditMax
        }
        // The second freeing is of a later check than the first, which has met both indexes.
        for _ in 0..<2 { try queryUntilFreed(service, views[0], idle, clock) }
        #expect(open.last == nil && read.keptBytes > 0)
        open.cancel()
        try awaitFreed(read, clock)
        try world.stop(service)
    }
}
