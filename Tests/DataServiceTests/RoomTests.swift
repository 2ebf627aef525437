import Bytes
import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary

/// Large writes get room, or are refused with the reason.
@Suite struct RoomTests {
    private static let mebibyte = 1 << 20
    private static let quota: UInt64 = 10 << 20

    private let world = TestWorld()

    private func open(_ type: BucketType, _ policy: EvictionPolicy) throws -> OpenBucket {
        var settings = TestWorld.settings("guests", type, quota: Self.quota)
        settings.evictionPolicy = policy
        try world.service.open(settings)
        return try #require(world.service.bucket(named: "guests"))
    }

    private func text(_ bytes: Int) -> String { String(repeating: "x", count: bytes) }

    /// Stores documents of 16 KiB until they use a share of the quota.
    private func fill(_ bucket: OpenBucket, _ share: Double, _ client: Client) {
        let wanted = UInt64(Double(Self.quota) * share)
        var number = 0
        while bucket.engine.account.bytes < wanted {
            let replies = client.ask(Ask.set("filler\(number)", text(16 << 10)))
            #expect(replies.map(\.status) == [0])
            guard replies.first?.status == 0 else { return }
            number += 1
        }
    }

    /// Sends a request and passes time until it is answered, at most `milliseconds`.
    private func ask(
        _ request: [UInt8],
        _ client: Client,
        within milliseconds: UInt64 = 1_000
    ) -> Reply? {
        var replies = client.ask(request)
        var passed: UInt64 = 0
        while replies.isEmpty, passed < milliseconds {
            world.pass(milliseconds: 1)
            passed += 1
            client.settle()
            replies = client.replies()
        }
        return replies.first
    }

    private func large(_ key: String = "large", _ bytes: Int = 2 << 20) -> [UInt8] {
        Ask.set(key, text(bytes))
    }

    @Test(arguments: [EvictionPolicy.valueOnly, .fullEviction], [true, false])
    func pagerMakesRoomForAWaitingWrite(_ policy: EvictionPolicy, _ isPersisted: Bool) throws {
        let bucket = try open(.persistent, policy)
        let client = world.client(of: "guests")
        fill(bucket, 0.76, client)
        if isPersisted { world.pass(milliseconds: 2_000) }
        fill(bucket, 0.745, client)
        #expect(bucket.engine.account.bytes < bucket.engine.account.highWatermark)
        #expect(ask(large(), client)?.status == 0)
        #expect(bucket.counters.total(.temporaryFailures) == 0)
        #expect(bucket.counters.total(.ejections) > 0)
        #expect(ask(Ask.get("large"), client)?.value.count == 2 << 20)
        #expect(ask(Ask.get("filler0"), client)?.value.count == 16 << 10)
        world.pass(milliseconds: 3_000)
        #expect(bucket.engine.account.reserved == 0)
        #expect(bucket.engine.account.bytes == TestWorld.recount(bucket.engine))
        #expect(world.lanes.pending("non-io") == 0, "the pager rests")
    }

    @Test func consecutiveWritesOfManySizesFindRoom() throws {
        let bucket = try open(.persistent, .valueOnly)
        let client = world.client(of: "guests")
        fill(bucket, 0.75, client)
        for round in 0..<20 {
            let bytes = (round % 6 + 1) << 20
            #expect(ask(large("large\(round)", bytes), client)?.status == 0, "\(bytes)")
        }
        #expect(bucket.counters.total(.temporaryFailures) == 0)
    }

    @Test func concurrentlyWaitingWritesAllFindRoom() throws {
        let bucket = try open(.persistent, .valueOnly)
        fill(bucket, 0.75, world.client(of: "guests"))
        world.pass(milliseconds: 2_000)
        let clients = (0..<2).map { _ in world.client(of: "guests") }
        for (number, client) in clients.enumerated() {
            client.send(large("large\(number)", 5 << 18))
        }
        world.pass(milliseconds: 200)
        for client in clients {
            client.settle()
            world.pass(milliseconds: 200)
        }
        for client in clients {
            client.settle()
            #expect(client.replies().map(\.status) == [0])
        }
    }

    @Test func writeThatFindsNoRoomInTimeIsRefusedAndItsRetryIsStored() throws {
        let bucket = try open(.persistent, .valueOnly)
        let (client, other) = (world.client(of: "guests"), world.client(of: "guests"))
        world.lanes.hold("writer")
        fill(bucket, 0.75, client)
        client.send(large())
        world.pass(milliseconds: 1_900)
        client.settle()
        #expect(client.replies().isEmpty && client.isPaused)
        // Room that is freed meanwhile is not for smaller writes.
        #expect(bucket.engine.account.reserved == 2 << 20)
        #expect(other.ask(Ask.set("small", "x")).map(\.status) == [0x86])
        let tooMany = other.ask(large("other"))
        #expect(tooMany.map(\.status) == [0x86], "waiting bytes are bounded")
        world.pass(milliseconds: 200)
        client.settle()
        let refused = client.replies()
        #expect(refused.map(\.status) == [0x86])
        #expect(refused.allSatisfy { $0.text.contains("memory is full") })
        world.lanes.release("writer")
        #expect(ask(large(), client)?.status == 0)
        world.pass(milliseconds: 3_000)
        #expect(bucket.engine.account.reserved == 0)
        #expect(other.ask(Ask.set("small", "x")).map(\.status) == [0])
    }

    @Test func smallWritesAreRefusedForNowWithoutWaiting() throws {
        let bucket = try open(.persistent, .valueOnly)
        let client = world.client(of: "guests")
        world.lanes.hold("writer")
        fill(bucket, 0.925, client)
        #expect(client.ask(Ask.set("small", text(128 << 10))).map(\.status) == [0x86])
        #expect(bucket.counters.total(.temporaryFailures) == 1)
    }

    @Test func touchAndAppendOfALargeDocumentFindRoomForTheOldVersionToo() throws {
        let bucket = try open(.persistent, .valueOnly)
        let client = world.client(of: "guests")
        #expect(ask(large("large", 3 << 20), client)?.status == 0)
        fill(bucket, 0.75, client)
        let touched = ask(Ask.on(0x1c, "large", extras: big(UInt32(1_000))), client)
        #expect(touched?.status == 0)
        fill(bucket, 0.75, client)
        let appended = ask(Ask.on(0x0e, "large", [UInt8](repeating: 1, count: 1 << 20)), client)
        #expect(appended?.status == 0)
        #expect(ask(Ask.get("large"), client)?.value.count == 4 << 20)
        #expect(bucket.counters.total(.temporaryFailures) == 0)
    }

    /// Keys and metadata of the documents use more than half of the quota.
    private func fillWithKeys(_ bucket: OpenBucket, _ client: Client) {
        var number = 0
        while bucket.engine.account.bytes < Self.quota * 13 / 25 {
            let sets = (0..<100).flatMap { _ -> [UInt8] in
                number += 1
                return Ask.set("\(number)" + text(240), "")
            }
            #expect(client.ask(sets).allSatisfy { $0.status == 0 })
        }
    }

    @Test func writeThatCanNeverFitIsRefusedWithoutEjection() throws {
        let bucket = try open(.persistent, .valueOnly)
        let client = world.client(of: "guests")
        fillWithKeys(bucket, client)
        fill(bucket, 0.7, client)
        world.pass(milliseconds: 2_000)
        for _ in 0..<2 {
            let reply = try #require(ask(large("large", 5 << 20), client))
            #expect(reply.status == 3)
            for words in ["guests", "quota of 10 MiB", "Raise the quota", "full eviction"] {
                #expect(reply.text.contains(words), "\(reply.text)")
            }
        }
        #expect(bucket.counters.total(.ejections) == 0)
        // A document that barely fits is stored.
        #expect(ask(large("large", 4 << 20), client)?.status == 0)
        // The remedy that the answer names.
        var settings = bucket.settings
        settings.evictionPolicy = .fullEviction
        bucket.change(settings)
        #expect(ask(large("other", 5 << 20), client)?.status == 0)
    }

    @Test(arguments: [
        (BucketType.persistent, EvictionPolicy.valueOnly), (.persistent, .fullEviction),
        (.ephemeral, .noEviction), (.ephemeral, .nruEviction),
    ])
    func writeLargerThanQuotaIsRefusedAtOnce(
        _ type: BucketType,
        _ policy: EvictionPolicy
    ) throws {
        _ = try open(type, policy)
        let replies = world.client(of: "guests").ask(large("large", 10 << 20))
        #expect(replies.map(\.status) == [3])
        #expect(replies.allSatisfy { $0.text.contains("Raise the quota") })
    }

    @Test func bucketWithoutADiskDeletesDocumentsForAWaitingWrite() throws {
        let bucket = try open(.ephemeral, .nruEviction)
        let client = world.client(of: "guests")
        fill(bucket, 0.75, client)
        #expect(ask(large(), client)?.status == 0)
        #expect(bucket.counters.total(.temporaryFailures) == 0)
    }

    @Test func bucketThatDeletesNothingRefusesAtOnceUntilClientsDelete() throws {
        let bucket = try open(.ephemeral, .noEviction)
        let client = world.client(of: "guests")
        fill(bucket, 0.75, client)
        let refused = client.ask(large())
        #expect(refused.map(\.status) == [0x86])
        #expect(refused.allSatisfy { $0.text.contains("memory is full") })
        for number in 0..<400 { _ = client.ask(Ask.on(0x04, "filler\(number)")) }
        #expect(client.ask(large()).map(\.status) == [0])
    }

    @Test func adminWriteWaitsForRoom() throws {
        let bucket = try open(.persistent, .valueOnly)
        fill(bucket, 0.75, world.client(of: "guests"))
        func write(_ bytes: Int) -> DocumentOutcome? {
            let answer = Guarded<DocumentOutcome?>(nil)
            let action = DocumentAction.write(
                value: [UInt8](repeating: 1, count: bytes),
                flags: 0,
                expiry: 0,
                preservesExpiry: false
            )
            world.service.perform(action, on: [1], inBucket: "guests") { found in
                answer.withLock { $0 = found }
            }
            world.pass(milliseconds: 1_000)
            return answer.withLock { $0 }
        }
        guard case .written = write(2 << 20) else {
            Issue.record("no room was made")
            return
        }
        #expect(write(10 << 20) == .refused(.exceedsMemory))
    }

    @Test func bucketFlushResumesWaitingWrite() throws {
        let bucket = try open(.persistent, .valueOnly)
        let client = world.client(of: "guests")
        world.lanes.hold("writer")
        fill(bucket, 0.75, client)
        client.send(large())
        world.pass(milliseconds: 100)
        client.settle()
        #expect(client.replies().isEmpty)
        try world.service.flush("guests")
        client.settle()
        #expect(client.replies().map(\.status) == [0])
        #expect(bucket.isRetired)
        world.lanes.release("writer")
    }
}
