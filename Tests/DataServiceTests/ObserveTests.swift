import DataService
import TestWorld
import Testing
import Vocabulary

/// OBSERVE, and the size of its answer.
@Suite struct ObserveTests {
    private let world = TestWorld()
    private let client: Client

    init() throws {
        try world.service.open(TestWorld.settings("guests"))
        client = world.client(of: "guests")
    }

    /// A request for keys of `keyCount` bytes that do not exist.
    private func observe(_ count: Int, keyCount: Int) -> [UInt8] {
        let pairs = (0..<count).flatMap { number -> [UInt8] in
            let digits = Array(String(number).utf8)
            let key = digits + [UInt8](repeating: 0x6b, count: keyCount - digits.count)
            return big(VBucketID(ofKey: key, count: 64).number) + big(UInt16(keyCount)) + key
        }
        return frame(0x92, value: pairs)
    }

    @Test(arguments: [5, 100, Limits.keyBytesMax])
    func observeOfTooManyKeysIsRefused(_ keyCount: Int) throws {
        let most = Limits.observeBytesMax / (keyCount + 13)
        let reply = try #require(client.ask(observe(most, keyCount: keyCount)).first)
        #expect(reply.status == 0 && reply.value.count == most * (keyCount + 13))
        let refused = client.ask(observe(most + 1, keyCount: keyCount))
        #expect(refused.map(\.status) == [3])
        #expect(client.ask(Ask.get("k")).map(\.status) == [1])
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
