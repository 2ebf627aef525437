import Bytes
import DataService
import Engine
import TestWorld
import Testing
import Vocabulary

/// A bucket in service applies a changed eviction policy at once.
@Suite struct PolicyTests {
    let world = TestWorld()

    private func stubs(_ bucket: OpenBucket) -> Int {
        bucket.engine.all.reduce(0) { sum, vBucket in
            sum + vBucket.withCore { $0.table.stubCount }
        }
    }

    @Test func ejectionFollowsCurrentPolicy() throws {
        var settings = TestWorld.settings("guests", .persistent)
        settings.evictionPolicy = .fullEviction
        try world.service.open(settings)
        let bucket = try #require(world.service.bucket(named: "guests"))
        let client = world.client(of: "guests")
        let stored = client.ask((0..<200).flatMap { Ask.set("key\($0)", "value \($0)") })
        world.pass(milliseconds: 500)
        world.ejectAll(from: "guests")
        #expect(stubs(bucket) == 200)

        settings.evictionPolicy = .valueOnly
        bucket.change(settings)
        #expect(bucket.engine.evictionPolicy == .valueOnly)
        // A fully ejected document is still found, with its CAS, and writes see it.
        let found = client.ask((0..<100).flatMap { Ask.get("key\($0)") })
        #expect(found.map(\.text) == (0..<100).map { "value \($0)" })
        #expect(found.map(\.cas) == stored.prefix(100).map(\.cas))
        let add = Ask.on(0x02, "key150", Array("value".utf8), extras: big(UInt64(0)))
        #expect(client.ask(add).map(\.status) == [2])
        #expect(stubs(bucket) == 99)
        // A restored document loses only its value.
        world.ejectAll(from: "guests")
        #expect(stubs(bucket) == 99)
        #expect(bucket.totals[.items] == 200)
        #expect(bucket.totals[.nonResidentItems] == 200)

        settings.evictionPolicy = .fullEviction
        bucket.change(settings)
        world.ejectAll(from: "guests")
        #expect(client.ask(Ask.get("key7")).map(\.text) == ["value 7"])
        world.ejectAll(from: "guests")
        #expect(stubs(bucket) >= 100)
        #expect(bucket.totals[.items] == 200)
        #expect(bucket.engine.account.bytes == TestWorld.recount(bucket.engine))
    }

    @Test func ephemeralBucketDeletesDocumentsOncePolicyAllows() throws {
        var settings = TestWorld.settings("guests", quota: 2 << 20)
        try world.service.open(settings)
        let bucket = try #require(world.service.bucket(named: "guests"))
        let client = world.client(of: "guests")
        func fill(_ name: String) -> Int {
            (0..<3_000).count { number in
                let value = String(repeating: "v", count: 1_000)
                return client.ask(Ask.set("\(name)\(number)", value)).first?.status == 0
            }
        }
        #expect(fill("first") < 3_000)
        settings.evictionPolicy = .nruEviction
        bucket.change(settings)
        world.pass(milliseconds: 100)
        #expect(fill("second") > 1_000)
    }

    /// The bucket was filled under full eviction, or with a larger quota; its current quota holds.
    @Test func warmupKeepsQuotaUnderEveryPolicy() throws {
        let directory = TestWorld.freshDirectory()
        defer { TestWorld.remove(directory) }
        let count = 120_000
        let first = TestWorld(directory: directory)
        try first.service.open(TestWorld.settings("guests", .persistent))
        let writer = first.client(of: "guests")
        for start in stride(from: 0, to: count, by: 1_000) {
            writer.send((start..<start + 1_000).flatMap { Ask.set("key\($0)", "value \($0)") })
            _ = writer.replies()
        }
        #expect(first.stop())
        let world = TestWorld(directory: directory)
        let settings = TestWorld.settings("guests", .persistent, quota: 6 << 20)
        try world.service.open(settings)
        world.settle()
        let bucket = try #require(world.service.bucket(named: "guests"))
        #expect(stubs(bucket) > 0)
        #expect(bucket.engine.account.bytes < settings.quota)
        #expect(bucket.totals[.items] == UInt64(count))
        let client = world.client(of: "guests")
        let some = stride(from: 0, to: count, by: 97)
        let found = client.ask(some.flatMap { Ask.get("key\($0)") })
        #expect(found.map(\.text) == some.map { "value \($0)" })
        #expect(client.ask(Ask.set("key1", "newer")).map(\.status) == [0])
    }

    @Test func keyListingIncludesEjectedDocuments() throws {
        var settings = TestWorld.settings("guests", .persistent)
        settings.evictionPolicy = .fullEviction
        try world.service.open(settings)
        let client = world.client(of: "guests")
        _ = client.ask((100..<300).flatMap { Ask.set("key\($0)", "value") })
        _ = client.ask(Ask.set("key150", "newer") + Ask.on(0x04, "key104"))
        world.pass(milliseconds: 500)
        world.ejectAll(from: "guests")
        // One is restored, one is not persisted yet, one is deleted only in memory.
        _ = client.ask(Ask.get("key102") + Ask.set("key101a", "value") + Ask.on(0x04, "key106"))
        var range = DocumentService.KeyRange()
        range.from = Array("key101".utf8)
        range.limit = 6
        let listed = Guarded<[String]>([])
        world.service.list(range, inBucket: "guests") { listing in
            guard case .keys(let keys) = listing else { return }
            listed.withLock { $0 = keys.map { String(decoding: $0, as: UTF8.self) } }
        }
        world.settle()
        let expected = ["key101", "key101a", "key102", "key103", "key105", "key107"]
        #expect(listed.withLock { $0 } == expected)
    }
}
