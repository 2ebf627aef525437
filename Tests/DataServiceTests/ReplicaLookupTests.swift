import DataService
import TestWorld
import Testing
import Vocabulary

/// Sub-document lookups on a replica: like GET_REPLICA, they need no lease.
@Suite struct ReplicaLookupTests {
    private let world = TestWorld()

    init() throws {
        let settings = TestWorld.settings("guests")
        let chain = [NodeNumber(2), NodeNumber(1)]
        let map = BucketAssignment(
            name: "guests",
            uuid: settings.uuid,
            index: 1,
            vBuckets: (0..<64).map { _ in
                VBucketAssignment(fence: 1, stage: 1, chain: chain, copies: 2)
            }
        )
        try world.service.open(settings, map, as: NodeNumber(1), isNew: true)
    }

    /// A lookup of the path `n`, with document flags.
    private func lookUp(flags: UInt8) -> [UInt8] {
        let path: [UInt8] = [0xc5, 0] + big(UInt16(1)) + Array("n".utf8)
        return Ask.on(0xd0, "k", path, extras: flags == 0 ? [] : [flags])
    }

    /// A large document is read on another lane.
    @Test(arguments: [10, Limits.lockedTransformBytesMax + 1])
    func documentOfReplicaIsLookedUpWithoutLease(_ count: Int) throws {
        try world.replicate("k", "{\"filler\":\"\(String(repeating: "x", count: count))\",\"n\":5}")
        let client = world.client(of: "guests")
        let now = world.time.monotonicNanoseconds()
        world.service.setLease(endNanoseconds: now + 1_000_000_000)
        for _ in 0..<2 {
            let replies = client.ask(lookUp(flags: 0x20))
            #expect(replies.map(\.status) == [0])
            #expect(replies.first?.value == [0, 0, 0, 0, 0, 1] + Array("5".utf8))
            #expect(client.ask(Ask.on(0x83, "k")).map(\.status) == [0])
            #expect(client.ask(lookUp(flags: 0)).map(\.status) == [7])
            world.jump(milliseconds: 1_000)
        }
        #expect(!client.isClosed)
    }
}
