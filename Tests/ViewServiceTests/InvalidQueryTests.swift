import Bytes
import Indexing
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// Nodes that break the protocol of queries.
@Suite struct InvalidQueryTests {
    struct Wrong: Sendable, CustomTestStringConvertible {
        let messages: [[UInt8]]
        let flaw: String

        init(_ flaw: String, _ messages: [UInt8]...) {
            self.flaw = flaw
            self.messages = messages
        }

        var testDescription: String { "\(flaw), \(messages.count) messages" }
    }

    // MARK: Wrong coordinators

    @Test(arguments: [
        Wrong("an invalid request", [200]),
        Wrong("an invalid request", QueryLimits.creditMessage),
    ])
    func invalidRequestEndsItsStreamOnly(_ wrong: Wrong) async throws {
        let world = LinkWorld()
        defer { world.end() }
        let query = world.send(try LinkWorld.request())
        let asked = try #require(await world.asked.wait().first)
        let stream = try await world.openRaw()
        stream.send(wrong.messages)
        #expect(await eventually { stream.end != nil })
        #expect(stream.end?.hasPrefix("it sent \(wrong.flaw)") == true, "\(stream.end ?? "")")
        asked.reply(.end)
        #expect(await query.events.wait() == ["end"])
        #expect(world.asked.values.count == 1)
    }

    @Test(arguments: [
        Wrong("too many credits", QueryLimits.creditMessage),
        Wrong("a message of 1 bytes that is no credit", [2]),
        Wrong("a message of 2 bytes that is no credit", [1, 1]),
    ])
    func invalidCreditCancelsItsQuery(_ wrong: Wrong) async throws {
        let world = LinkWorld()
        defer { world.end() }
        let stream = try await world.openRaw()
        stream.send(try LinkWorld.request().encoded)
        let asked = try #require(await world.asked.wait().first)
        stream.send(wrong.messages)
        #expect(await eventually { asked.isCancelled })
        #expect(stream.end == "it sent \(wrong.flaw)" && asked.credits == 0)
    }

    @Test func coordinatorBeyondItsBoundIsRefused() async throws {
        let world = LinkWorld()
        defer { world.end() }
        var streams: [RawStream] = []
        for _ in 0..<QueryLimits.acceptedMax { streams.append(try await world.openRaw()) }
        let refused = try await world.openRaw()
        #expect(await eventually { refused.end != nil })
        #expect(streams.allSatisfy { $0.end == nil })
        let query = world.send(try LinkWorld.request())
        try #require(await world.asked.wait().first).reply(.end)
        #expect(await query.events.wait() == ["end"])
        // The end of a stream makes room for another one.
        streams[3].port.end(nil)
        #expect(await eventually { streams[3].end != nil })
        let next = try await world.openRaw()
        next.send(try LinkWorld.request().encoded)
        #expect(await world.asked.wait(2).count == 2)
    }

    // MARK: Wrong responders

    private static let rows: [UInt8] = [2, 0, 0, 0, 0]

    static let wrongResponders = [
        Wrong("an invalid reply", [99]),
        Wrong("more rows than requested", rows, rows, rows),
        Wrong(
            "a reply of 4194305 bytes",
            [UInt8](repeating: 5, count: QueryLimits.replyBytesMax + 1)
        ),
    ]

    @Test(arguments: wrongResponders)
    func invalidReplyLosesItsQueryOnly(_ wrong: Wrong) async throws {
        let raw = Signal<RawStream>()
        let world = LinkWorld(raw: raw)
        defer { world.end() }
        let query = world.send(try LinkWorld.request())
        let other = world.send(try LinkWorld.request())
        let streams = await raw.wait(2)
        try #require(streams.count == 2)
        streams[0].send(wrong.messages)
        #expect(await eventually { streams[0].end != nil })
        let last = query.events.values.last ?? ""
        #expect(last.hasPrefix("lost: it sent \(wrong.flaw)"), "\(last)")
        streams[1].send(QueryReply.end.encoded)
        #expect(await other.events.wait() == ["end"])
    }

    @Test func streamThatEndsWithoutLastReplyLosesItsQuery() async throws {
        let raw = Signal<RawStream>()
        let world = LinkWorld(raw: raw)
        defer { world.end() }
        let query = world.send(try LinkWorld.request())
        try #require(await raw.wait().first).port.end(nil)
        #expect(await query.events.wait() == ["lost: it ended the query without a last reply"])
    }

    @Test func requestIsOneMessageAndEachCreditOneMore() async throws {
        let raw = Signal<RawStream>()
        let world = LinkWorld(raw: raw)
        defer { world.end() }
        let request = try LinkWorld.request(boundBytes: 100_000)
        let query = world.send(request)
        let stream = try #require(await raw.wait().first)
        stream.send(Self.rows, Self.rows)
        #expect(await query.events.wait(2).count == 2)
        query.call.addCredit()
        query.call.addCredit()
        #expect(await eventually { stream.received.count == 3 })
        let credit = QueryLimits.creditMessage
        #expect(stream.received == [request.encoded, credit, credit])
    }
}
