import Bytes
import Indexing
import TestSupport
import Testing
import ViewService
import Vocabulary

/// Queries between two nodes over real sockets.
@Suite struct QueryLinkTests {
    private func asked(_ world: LinkWorld, _ number: Int) async throws -> AskedQuery {
        let queries = await world.asked.wait(number)
        try #require(queries.count >= number)
        return queries[number - 1]
    }

    @Test func requestAndRepliesArriveInOrder() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let request = try LinkWorld.request()
        let query = try world.send(request)
        let asked = try await asked(world, 1)
        #expect(asked.request == request)
        asked.reply(.start(QueryStart(indexRows: 5)))
        asked.reply(try LinkWorld.rows("one"))
        asked.reply(try LinkWorld.rows("two"))
        asked.reply(.end)
        asked.reply(try LinkWorld.rows("after the end"))
        #expect(await query.events.wait(4) == ["start 5", "one", "two", "end"])
        #expect(world.dials.values == [LinkWorld.other])
    }

    @Test func interleavedQueriesKeepTheirOwnReplies() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let one = try world.send(try LinkWorld.request("one"))
        let other = try world.send(try LinkWorld.request("other"))
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
        #expect(world.dials.values.count == 1)
    }

    @Test func eachCreditReachesResponderOnce() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let query = try world.send(try LinkWorld.request())
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
        let world = try LinkWorld()
        defer { world.end() }
        let query = try world.send(try LinkWorld.request())
        let other = try world.send(try LinkWorld.request())
        let asked = try await asked(world, 1)
        for _ in 0..<4 { asked.reply(try LinkWorld.rows("x")) }
        let events = await query.events.wait(3)
        #expect(events == ["x", "x", "failed: The node sent more rows than requested."])
        #expect(await eventually { asked.isCancelled })
        try await self.asked(world, 2).reply(.end)
        #expect(await other.events.wait() == ["end"])
    }

    @Test func cancellationReachesResponder() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let query = try world.send(try LinkWorld.request())
        let first = try await asked(world, 1)
        query.call.cancel()
        #expect(await eventually { first.isCancelled })
        first.reply(.start(QueryStart(indexRows: 1)))
        let next = try world.send(try LinkWorld.request())
        try await asked(world, 2).reply(.end)
        #expect(await next.events.wait() == ["end"])
        #expect(query.events.values.isEmpty && world.dials.values.count == 1)
    }

    @Test func lostConnectionEndsItsQueriesOnBothSides() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let queries = try (0..<3).map { _ in try world.send(try LinkWorld.request()) }
        let asked = await world.asked.wait(3)
        asked[0].reply(.start(QueryStart(indexRows: 1)))
        #expect(await queries[0].events.wait() == ["start 1"])
        asked[2].reply(.end)
        #expect(await queries[2].events.wait() == ["end"])
        world.cutConnections()
        let lost = "lost: it ended the connection"
        #expect(await queries[0].events.wait(2) == ["start 1", lost])
        #expect(await queries[1].events.wait() == [lost])
        #expect(queries[2].events.values == ["end"])
        #expect(await eventually { asked[0].isCancelled && asked[1].isCancelled })
        #expect(!asked[2].isCancelled)
        // The next query opens another connection.
        let next = try world.send(try LinkWorld.request())
        try await self.asked(world, 4).reply(.end)
        #expect(await next.events.wait() == ["end"])
        #expect(world.dials.values.count == 2)
    }

    @Test func failedConnectionLosesQueriesWithReason() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        for _ in 0..<2 {
            let query = try world.send(try LinkWorld.request(), to: NodeNumber(9))
            #expect(await query.events.wait() == ["lost: there is no node n9"])
        }
        #expect(world.dials.values.count == 2)
    }

    @Test func ownNodeIsAskedDirectly() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let query = try world.send(try LinkWorld.request(), to: LinkWorld.own)
        let asked = try await asked(world, 1)
        asked.reply(.end)
        #expect(query.events.values == ["end"])
        query.call.cancel()
        #expect(asked.isCancelled && world.dials.values.isEmpty)
    }

    @Test func stopLosesAllQueriesOfOtherNodes() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let query = try world.send(try LinkWorld.request())
        let asked = try await asked(world, 1)
        world.links?.stop()
        #expect(await query.events.wait() == ["lost: this node stops"])
        #expect(await eventually { asked.isCancelled })
        let late = try world.send(try LinkWorld.request())
        #expect(await late.events.wait() == ["lost: this node stops"])
        #expect(world.dials.values.count == 1)
    }

    @Test func nodeHasBoundedNumberOfQueries() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let queries = try (0..<QueryLimits.queriesMax).map { _ in
            try world.send(try LinkWorld.request())
        }
        let asked = await world.asked.wait(queries.count)
        #expect(asked.count == queries.count)
        let refused = try world.send(try LinkWorld.request())
        #expect(await refused.events.wait() == ["lost: it has 64 queries of this node already"])
        asked[5].reply(.end)
        #expect(await queries[5].events.wait() == ["end"])
        queries[6].call.cancel()
        for number in 1...2 {
            let next = try world.send(try LinkWorld.request())
            try await self.asked(world, queries.count + number).reply(.failed("no"))
            #expect(await next.events.wait() == ["failed: no"])
        }
        #expect(world.warnings.isEmpty)
    }

    // MARK: Large messages

    /// Both sides have more to send than the kernel buffers, and neither waits for the other.
    @Test func largeRequestsAndRepliesPassEachOther() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let value = String(repeating: "v", count: 1 << 20)
        var streams: [SentQuery] = []
        for _ in 0..<16 { streams.append(try world.send(try LinkWorld.request())) }
        let small = await world.asked.wait(16)
        let request = try LinkWorld.request(boundBytes: 20 << 20)
        var large: [SentQuery] = []
        for round in 0..<4 {
            for query in small {
                query.reply(try LinkWorld.rows(value))
                query.reply(try LinkWorld.rows(value))
            }
            if round == 0 { for _ in 0..<2 { large.append(try world.send(request)) } }
            for stream in streams {
                #expect(await stream.events.wait(2 * round + 2).count == 2 * round + 2)
                stream.call.addCredit()
                stream.call.addCredit()
            }
            #expect(await eventually { small.allSatisfy { $0.credits == 2 * round + 2 } })
        }
        for number in 17...18 {
            let arrived = try await asked(world, number)
            #expect(arrived.request == request)
            arrived.reply(.end)
        }
        for query in large { #expect(await query.events.wait() == ["end"]) }
        for stream in streams {
            #expect(Set(stream.events.values) == ["vvvvvvvv#\(1 << 20)"])
        }
    }

    @Test func requestBeyondBoundIsLostAtOnce() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let query = try world.send(
            try LinkWorld.request(boundBytes: QueryLimits.requestBytesMax)
        )
        #expect(await query.events.wait() == ["lost: the request is too large for it"])
        #expect(world.dials.values.isEmpty)
    }

    @Test func replyBeyondBoundFailsItsQuery() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let query = try world.send(try LinkWorld.request())
        let asked = try await asked(world, 1)
        asked.reply(try LinkWorld.rows(String(repeating: "v", count: QueryLimits.replyBytesMax)))
        let events = await query.events.wait()
        #expect(events == ["failed: A row of the index is too large for a reply."])
        #expect(await eventually { asked.isCancelled })
    }

    // MARK: Idle and silent nodes

    @Test func idleConnectionIsClosedAndOpenedAgain() async throws {
        var limits = QueryLimits()
        limits.tickNanoseconds = 10_000_000
        limits.idleTicksMax = 3
        // A busy machine is no silent node here.
        limits.silentTicksMax = 10_000
        limits.silentCoordinatorTicksMax = 10_000
        let world = try LinkWorld(limits: limits)
        defer { world.end() }
        for round in 1...3 {
            let query = try world.send(try LinkWorld.request())
            let asked = try await asked(world, round)
            // It is not idle while it has a query: the reply comes after more checks than three.
            try await Task.sleep(for: .milliseconds(100))
            asked.reply(.end)
            #expect(await query.events.wait() == ["end"])
            #expect(await world.ended.wait(round).count == round)
            #expect(world.dials.values.count == round)
        }
    }

    @Test func silentNodeLosesItsQueries() async throws {
        var limits = QueryLimits()
        limits.tickNanoseconds = 10_000_000
        let raw = Signal<RawConnection>()
        let world = try LinkWorld(limits: limits, raw: raw)
        defer { world.end() }
        let query = try world.send(try LinkWorld.request())
        #expect(await query.events.wait() == ["lost: it did not answer"])
        let connection = try #require(raw.values.first)
        #expect(await eventually { connection.isClosed })
        #expect(connection.frames(isFromCoordinator: true).contains("ping 0 0"))
    }

    @Test func slowQueryOfLiveNodeIsKept() async throws {
        var limits = QueryLimits()
        limits.tickNanoseconds = 20_000_000
        limits.silentTicksMax = 25
        limits.silentCoordinatorTicksMax = 25
        let world = try LinkWorld(limits: limits)
        defer { world.end() }
        let query = try world.send(try LinkWorld.request())
        let asked = try await asked(world, 1)
        // Longer than the checks of a silent node and of a silent coordinator.
        try await Task.sleep(for: .milliseconds(1_500))
        asked.reply(.end)
        #expect(await query.events.wait() == ["end"])
    }

    @Test func silentCoordinatorIsClosed() async throws {
        var limits = QueryLimits()
        limits.tickNanoseconds = 10_000_000
        let world = try LinkWorld(limits: limits)
        defer { world.end() }
        let connection = try await world.connectRaw()
        let request = try LinkWorld.request()
        connection.send(LinkWorld.bytes(.request, 1, request.encoded))
        let asked = try await asked(world, 1)
        #expect(await eventually { connection.isClosed && asked.isCancelled })
    }
}
