import DataService
import TestWorld
import Testing
import Vocabulary
import Wire

/// A bucket's counters match its traffic to the byte.
@Suite struct CounterTests {
    let world = TestWorld()

    init() throws {
        try world.service.open(TestWorld.settings("guests"))
        try world.service.open(TestWorld.settings("others"))
    }

    private func total(_ counter: Statistic, of bucket: String = "guests") throws -> UInt64 {
        try #require(world.service.bucket(named: bucket)).counters.total(counter)
    }

    @Test func receivedAndSentBytesAreCounted() throws {
        let client = world.client(of: "guests")
        let (read, written) = (try total(.bytesRead), try total(.bytesWritten))
        var (sent, received) = (UInt64(0), UInt64(0))
        let requests = [
            Ask.set("key", String(repeating: "v", count: 5_000)), Ask.get("key"), Ask.get("none"),
            frame(.noop), Ask.set("key", "again") + Ask.get("key"),
        ]
        for request in requests {
            sent += UInt64(request.count)
            client.send(Array(request.prefix(11)))
            client.send(Array(request.dropFirst(11)))
            received += UInt64(client.received.count)
            _ = client.replies()
        }
        #expect(received > 5_000)
        #expect(try total(.bytesRead) == read + sent)
        #expect(try total(.bytesWritten) == written + received)
        #expect(try total(.bytesRead, of: "others") == 0)
        #expect(try total(.bytesWritten, of: "others") == 0)
    }

    @Test func statsListEveryStatisticUnderItsNames() throws {
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set("key", "value") + Ask.get("key") + Ask.get("none"))
        let general = Statistic.general.numbers + Statistic.general.memory
        for (group, list) in [("", general), ("memory", Statistic.memory)] {
            let replies = client.ask(frame(0x10, key: Array(group.utf8)))
            let lines = replies.map { "\(String(decoding: $0.key, as: UTF8.self)) \($0.text)" }
            let bucket = try #require(world.service.bucket(named: "guests"))
            for (name, number) in bucket.statistics(readsDisk: true).lines(list) {
                #expect(lines.contains("\(name) \(number)"))
            }
        }
    }

    @Test func answersAfterDiskReadAreCountedWhenSent() throws {
        try world.service.open(TestWorld.settings("kept", .persistent))
        let client = world.client(of: "kept")
        _ = client.ask(Ask.set("key", String(repeating: "v", count: 5_000)))
        world.pass(milliseconds: 500)
        #expect(world.eject("key", from: "kept"))
        let written = try total(.bytesWritten, of: "kept")
        let reply = try #require(client.ask(Ask.get("key")).first)
        #expect(reply.value.count == 5_000)
        #expect(try total(.bytesWritten, of: "kept") == written + 24 + 4 + 5_000)
    }

    @Test func onlyWritesWithStaleCASCountAsMismatches() throws {
        let client = world.client(of: "guests")
        let cas = try #require(client.ask(Ask.set("key", "value")).first).cas
        #expect(client.ask(Ask.set("key", "other", cas: cas + 1)).map(\.status) == [2])
        #expect(client.ask(Ask.on(.delete, "key", [], 0, cas + 1)).map(\.status) == [2])
        // An ADD of an existing document is refused with the same status and is no mismatch.
        let add = Ask.on(.add, "key", Array("value".utf8), extras: big(UInt64(0)))
        #expect(client.ask(add).map(\.status) == [2])
        #expect(client.ask(Ask.set("key", "right", cas: cas)).map(\.status) == [0])
        #expect(try total(.casMismatches) == 2)
    }

    @Test func connectionsAreCountedForTheirSelectedBucket() throws {
        world.admitAdministrator()
        func connections() -> [UInt64?] {
            ["guests", "others"].map { world.service.bucket(named: $0)?.connections }
        }
        #expect(connections() == [0, 0])
        let guests = [world.client(of: "guests"), world.client(of: "guests")]
        let user = Client(world)
        let credentials = Array("\0Administrator\0secret".utf8)
        let login = frame(.saslAuth, key: Array("PLAIN".utf8), value: credentials)
        #expect(user.ask(login).map(\.status) == [0])
        #expect(connections() == [2, 0])
        for _ in 0..<2 {
            #expect(user.ask(frame(.selectBucket, key: Array("others".utf8))).map(\.status) == [0])
        }
        #expect(connections() == [2, 1])
        #expect(user.ask(frame(.selectBucket, key: Array("guests".utf8))).map(\.status) == [0])
        #expect(connections() == [3, 0])
        // A bucket flush removes the documents and keeps the connections, with or without further
        // requests.
        try world.service.flush("guests")
        #expect(connections() == [3, 0])
        _ = user.ask(Ask.get("key"))
        #expect(connections() == [3, 0])
        guests[0].hangUp()
        #expect(connections() == [2, 0])
        #expect(user.ask(login).map(\.status) == [0])
        #expect(connections() == [1, 0])
        guests[1].hangUp()
        user.hangUp()
        #expect(connections() == [0, 0])
    }
}
