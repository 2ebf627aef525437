import DataService
import TestWorld
import Testing
import Vocabulary

/// What a copy answers about histories.
@Suite struct ObserveTests {
    private let world = TestWorld()
    private let client: Client

    init() throws {
        try world.service.open(TestWorld.settings("guests"))
        client = world.client(of: "guests")
    }

    @Test func historyThatTheActiveCopyDoesNotKnowIsNotFound() throws {
        let set = try #require(client.ask(Ask.set("k", "1")).first)
        let number = VBucketID(ofKey: Array("k".utf8), count: 64).number
        let known = Array(set.extras.prefix(8))
        let reply = try #require(client.ask(frame(0x91, value: known, vBucket: number)).first)
        #expect(reply.status == 0 && reply.value.count == 27)
        for unknown in [UInt64(0), 1, .max] {
            let request = frame(0x91, value: big(unknown), vBucket: number)
            #expect(client.ask(request).map(\.status) == [1])
        }
    }
}
