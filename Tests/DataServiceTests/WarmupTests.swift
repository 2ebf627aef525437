import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary
import Wire

/// A bucket serves requests during warmup, without losing anything.
@Suite final class WarmupTests {
    let directory = TestWorld.freshDirectory()

    /// Writes 300 documents, then stops or crashes.
    init() throws {
        try leave(afterStopping: true)
    }

    deinit { TestWorld.remove(directory) }

    private func leave(afterStopping: Bool) throws {
        let world = TestWorld(directory: directory)
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        let replies = client.ask(
            (0..<300).flatMap { Ask.set("key\($0)", "value \($0)", opaque: 1) }
        )
        try #require(replies.allSatisfy { $0.status == 0 })
        world.pass(milliseconds: 500)
        if afterStopping { #expect(world.stop()) }
    }

    @Test func warmupLoadsEveryDocument() throws {
        let world = try TestWorld.reopened(directory)
        let client = world.client(of: "guests")
        client.send((0..<300).flatMap { Ask.get("key\($0)", opaque: UInt32($0)) })
        #expect(client.replies().isEmpty)
        world.lanes.release("reader")
        client.settle()
        #expect(client.replies().map(\.text) == (0..<300).map { "value \($0)" })
    }

    @Test func writesDuringWarmupWaitAndApply() throws {
        let world = try TestWorld.reopened(directory)
        let client = world.client(of: "guests")
        let key = Array("key1".utf8)
        let pair =
            big(VBucketID(ofKey: key, count: 64).number) + big(UInt16(key.count)) + key
        client.send(
            Ask.on(.add, "key1", Array("added".utf8), extras: [0, 0, 0, 0, 0, 0, 0, 0], 1)
                + Ask.on(.append, "key1", Array("!".utf8), extras: [], 2)
                + frame(.observe, value: pair, opaque: 3)
                + Ask.get("key1", opaque: 4)
        )
        #expect(client.replies().isEmpty)
        world.lanes.release("reader")
        client.settle()
        let replies = client.replies()
        #expect(replies.map(\.opaque) == [1, 2, 3, 4])
        #expect(replies.map(\.status) == [2, 0, 0, 0])
        #expect(replies.last?.text == "value 1!")
        // The append is not persisted yet.
        let state = replies.first { $0.opaque == 3 }?.value.dropFirst(4 + key.count).first
        #expect(state == 0)
    }

    @Test func observeDuringWarmupDoesNotReportNotFound() throws {
        let world = try TestWorld.reopened(directory)
        let client = world.client(of: "guests")
        let key = Array("key7".utf8)
        let pair =
            big(VBucketID(ofKey: key, count: 64).number) + big(UInt16(key.count)) + key
        client.send(frame(.observe, value: pair))
        #expect(client.replies().isEmpty)
        world.lanes.release("reader")
        client.settle()
        #expect(client.replies().first?.value.dropFirst(4 + key.count).first == 1)
    }

    /// A client that streams to these seqnos would miss documents if they were too low.
    @Test func seqnosListedDuringWarmupAreThoseAfterIt() throws {
        let world = try TestWorld.reopened(directory)
        let client = world.client(of: "guests")
        let during = client.ask(frame(.getAllVBucketSeqnos)).flatMap(\.value)
        world.lanes.release("reader")
        client.settle()
        #expect(during == client.ask(frame(.getAllVBucketSeqnos)).flatMap(\.value))
        // Entries of ten bytes; the last byte is enough for these seqnos.
        let seqnos = stride(from: 9, to: during.count, by: 10).map { Int(during[$0]) }
        #expect(seqnos.count == 64 && seqnos.reduce(0, +) == 300)
    }

    @Test(arguments: [true, false])
    func waitingRequestIsAnsweredWhenBucketCloses(isFlush: Bool) throws {
        let world = try TestWorld.reopened(directory)
        let client = world.client(of: "guests")
        client.send(Ask.get("key1", opaque: 1))
        #expect(client.isPaused)
        if isFlush {
            try world.service.flush("guests")
        } else {
            try world.service.delete("guests")
        }
        world.lanes.release("reader")
        client.settle()
        #expect(client.replies().map { [UInt32($0.status), $0.opaque] } == [[isFlush ? 1 : 8, 1]])
        #expect(world.trace.lines(atLeast: .error) == [])
        #expect(world.service.alerts.current.isEmpty)
    }

    @Test func onlyUncleanStopBeginsNewHistory() throws {
        func entries(_ world: TestWorld) throws -> Int {
            let client = world.client(of: "guests")
            let lines = client.ask(frame(.stat, key: Array("vbucket-details".utf8)))
            let counts = lines.filter {
                String(decoding: $0.key, as: UTF8.self).hasSuffix(":num_failover_entries")
            }
            return counts.compactMap { Int($0.text) }.max() ?? 0
        }
        let clean = try TestWorld.reopened(directory)
        clean.lanes.release("reader")
        clean.settle()
        #expect(try entries(clean) == 1)
        // The node crashes here: `stop` is not called.
        let unclean = try TestWorld.reopened(directory)
        unclean.lanes.release("reader")
        unclean.settle()
        #expect(try entries(unclean) == 2)
        unclean.pass(milliseconds: 500)
        #expect(unclean.stop())
        #expect(try entries(TestWorld.reopened(directory)) == 2)
    }

    /// After a crash every vBucket has its new history to write, and then the change too.
    @Test func changeRightAfterUncleanStopIsWrittenOnce() throws {
        for round in 0..<2 {
            let world = try TestWorld.reopened(directory)
            world.lanes.release("reader")
            world.settle()
            let client = world.client(of: "guests")
            let requests = (0..<300).flatMap { Ask.set("key\($0)", "round \(round)") }
            #expect(client.ask(requests).allSatisfy { $0.status == 0 })
            world.pass(milliseconds: 1_000)
            #expect(client.ask(Ask.get("key5")).map(\.text) == ["round \(round)"])
            #expect(world.trace.lines(atLeast: .error) == [])
            let bucket = try #require(world.service.bucket(named: "guests"))
            #expect(bucket.counters.total(.persistedChanges) == 300)
            // The node crashes here: `stop` is not called.
        }
        let world = try TestWorld.reopened(directory)
        world.lanes.release("reader")
        let client = world.client(of: "guests")
        let replies = client.ask((0..<300).flatMap { Ask.get("key\($0)") })
        #expect(replies.allSatisfy { $0.text == "round 1" })
    }

    @Test func documentsThatExpiredWhileReadArePersistedBeforeTheEnd() throws {
        let world = try TestWorld.reopened(directory)
        world.lanes.release("reader")
        let client = world.client(of: "guests")
        #expect(client.ask(Ask.set("short", "life", expiry: 1)).map(\.status) == [0])
        world.pass(milliseconds: 2_000)
        #expect(client.ask(Ask.get("short")).map(\.status) == [1])
        #expect(world.stop())
        #expect(world.trace.lines(atLeast: .error) == [])
    }
}
