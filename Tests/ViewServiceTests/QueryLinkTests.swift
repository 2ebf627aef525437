import Bytes
import Indexing
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// Queries between two nodes, each on a stream.
@Suite struct QueryLinkTests {
    private func asked(_ world: LinkWorld, _ number: Int) async throws -> AskedQuery {
        let queries = await world.asked.wait(number)
        try #require(queries.count >= number)
        return queries[number - 1]
    }

    @Test func requestAndRepliesArriveInOrder() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let request = try LinkWorld.request()
        let query = world.send(request)
        let asked = try await asked(world, 1)
        #expect(asked.request == request)
        asked.reply(.start(QueryStart(indexRows: 5)))
        asked.reply(try LinkWorld.rows("one"))
        asked.reply(try LinkWorld.rows("two"))
        asked.reply(.end)
        asked.reply(try LinkWorld.rows("after the end"))
        #expect(await query.events.wait(4) == ["start 5", "one", "two", "end"])
        #expect(world.streams.opened.values == [LinkWorld.other])
    }

    @Test func interleavedQueriesKeepTheirOwnReplies() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let one = world.send(try LinkWorld.request("one"))
        let other = world.send(try LinkWorld.request("other"))
        let (first, second) = (try await asked(world, 1), try await asked(world, 2))
        #expect([first, second].map(\.request.bucket) == ["one", "other"])
        second.reply(.start(QueryStart(indexRows: 2)))
        first.reply(.start(QueryStart(indexRows: 1)))
        second.reply(try LinkWorld.rows("b"))
        first.reply(try LinkWorld.rows("a"))
        second.reply(.moved(7))
        first.reply(.end)
        #expect(await one.events.wait(3) == ["start 1", "a", "end"])
        #expect(await other.events.wait(3) == ["start 2", "b", "moved 7"])
    }

    @Test func eachCreditReachesResponderOnce() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let query = world.send(try LinkWorld.request())
        let asked = try await asked(world, 1)
        // No batch has arrived, so there is nothing to credit.
        query.call.addCredit()
        asked.reply(.start(QueryStart(indexRows: 9)))
        asked.reply(try LinkWorld.rows("1"))
        asked.reply(try LinkWorld.rows("2"))
        #expect(await query.events.wait(3).count == 3)
        #expect(asked.credits == 0)
        query.call.addCredit()
        #expect(await eventually { asked.credits == 1 })
        asked.reply(try LinkWorld.rows("3"))
        #expect(await query.events.wait(4).last == "3")
        query.call.addCredit()
        query.call.addCredit()
        query.call.addCredit()
        #expect(await eventually { asked.credits == 3 })
        asked.reply(.end)
        #expect(await query.events.wait(5).last == "end")
        #expect(asked.credits == 3)
    }

    @Test func responderWithoutCreditFailsItsQueryOnly() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let query = world.send(try LinkWorld.request())
        let other = world.send(try LinkWorld.request())
        let asked = try await asked(world, 1)
        for _ in 0..<4 { asked.reply(try LinkWorld.rows("x")) }
        let events = await query.events.wait(3)
        #expect(events == ["x", "x", "failed: The node sent more rows than requested."])
        #expect(await eventually { asked.isCancelled })
        #expect(world.trace.lines(of: "views", atLeast: .fault).count == 1)
        try await self.asked(world, 2).reply(.end)
        #expect(await other.events.wait() == ["end"])
    }

    @Test func cancellationReachesResponder() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let query = world.send(try LinkWorld.request())
        let first = try await asked(world, 1)
        query.call.cancel()
        #expect(await eventually { first.isCancelled })
        first.reply(.start(QueryStart(indexRows: 1)))
        let next = world.send(try LinkWorld.request())
        try await asked(world, 2).reply(.end)
        #expect(await next.events.wait() == ["end"])
        #expect(query.events.values.isEmpty)
    }

    @Test func lostConnectionEndsItsQueriesOnBothSides() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let queries = try (0..<3).map { _ in world.send(try LinkWorld.request()) }
        let asked = await world.asked.wait(3)
        asked[0].reply(.start(QueryStart(indexRows: 1)))
        #expect(await queries[0].events.wait() == ["start 1"])
        asked[2].reply(.end)
        #expect(await queries[2].events.wait() == ["end"])
        world.streams.cut()
        let lost = "lost: it ended the connection"
        #expect(await queries[0].events.wait(2) == ["start 1", lost])
        #expect(await queries[1].events.wait() == [lost])
        #expect(queries[2].events.values == ["end"])
        #expect(await eventually { asked[0].isCancelled && asked[1].isCancelled })
        #expect(!asked[2].isCancelled)
        let next = world.send(try LinkWorld.request())
        try await self.asked(world, 4).reply(.end)
        #expect(await next.events.wait() == ["end"])
    }

    @Test func failedConnectionLosesQueriesWithReason() async throws {
        let world = LinkWorld()
        defer { world.end() }
        for _ in 0..<2 {
            let query = world.send(try LinkWorld.request(), to: NodeNumber(9))
            #expect(await query.events.wait() == ["lost: there is no node n9"])
        }
        world.streams.refuse(LinkWorld.other, "its key is unknown")
        let query = world.send(try LinkWorld.request())
        #expect(await query.events.wait() == ["lost: its key is unknown"])
    }

    @Test func queryCancelledBeforeItsStreamOpensLeavesNoTrace() throws {
        let lanes = ManualLanes(time: ManualTime())
        let world = LinkWorld(lane: lanes.makeLane("streams"))
        defer { world.end() }
        let query = world.send(try LinkWorld.request())
        let stopped = world.send(try LinkWorld.request())
        query.call.cancel()
        world.links.stop()
        #expect(stopped.events.values == ["lost: this node stops"])
        while lanes.runOne() {}
        #expect(world.asked.values.isEmpty && query.events.values.isEmpty)
        #expect(stopped.events.values.count == 1)
    }

    @Test func ownNodeIsAskedDirectly() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let query = world.send(try LinkWorld.request(), to: LinkWorld.own)
        let asked = try await asked(world, 1)
        asked.reply(.end)
        #expect(query.events.values == ["end"])
        query.call.cancel()
        #expect(asked.isCancelled && world.streams.opened.values.isEmpty)
    }

    @Test func stopLosesAllQueriesOfOtherNodes() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let query = world.send(try LinkWorld.request())
        let asked = try await asked(world, 1)
        world.links.stop()
        #expect(await query.events.wait() == ["lost: this node stops"])
        #expect(await eventually { asked.isCancelled })
        let late = world.send(try LinkWorld.request())
        #expect(await late.events.wait() == ["lost: this node stops"])
        #expect(world.streams.opened.values.count == 1)
    }

    @Test func nodeHasBoundedNumberOfQueries() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let queries = try (0..<QueryLimits.queriesMax).map { _ in
            world.send(try LinkWorld.request())
        }
        let asked = await world.asked.wait(queries.count)
        #expect(asked.count == queries.count)
        let refused = world.send(try LinkWorld.request())
        #expect(await refused.events.wait() == ["lost: it has 64 queries of this node already"])
        asked[5].reply(.end)
        #expect(await queries[5].events.wait() == ["end"])
        queries[6].call.cancel()
        for number in 1...2 {
            let next = world.send(try LinkWorld.request())
            try await self.asked(world, queries.count + number).reply(.failed("no"))
            #expect(await next.events.wait() == ["failed: no"])
        }
    }

    // MARK: Large messages

    @Test func largeRequestAndRepliesArriveWhole() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let request = try LinkWorld.request(boundBytes: 20 << 20)
        let query = world.send(request)
        let asked = try await asked(world, 1)
        #expect(asked.request == request)
        let value = String(repeating: "v", count: 1 << 20)
        for round in 1...4 {
            asked.reply(try LinkWorld.rows(value))
            #expect(await query.events.wait(round).last == "vvvvvvvv#\(1 << 20)")
            query.call.addCredit()
            #expect(await eventually { asked.credits == round })
        }
        asked.reply(.end)
        #expect(await query.events.wait(5).last == "end")
    }

    @Test func requestBeyondBoundIsLostAtOnce() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let query = world.send(
            try LinkWorld.request(boundBytes: QueryLimits.requestBytesMax)
        )
        #expect(await query.events.wait() == ["lost: the request is too large for it"])
        #expect(world.streams.opened.values.isEmpty)
    }

    @Test func replyBeyondBoundFailsItsQuery() async throws {
        let world = LinkWorld()
        defer { world.end() }
        let query = world.send(try LinkWorld.request())
        let asked = try await asked(world, 1)
        asked.reply(try LinkWorld.rows(String(repeating: "v", count: QueryLimits.replyBytesMax)))
        let events = await query.events.wait()
        #expect(events == ["failed: A row of the index is too large for a reply."])
        #expect(await eventually { asked.isCancelled })
    }
}
