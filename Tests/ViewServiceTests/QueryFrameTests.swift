import Bytes
import Indexing
import TestSupport
import Testing
import ViewService
import Vocabulary

/// The frames between nodes, and nodes that send wrong ones.
@Suite struct QueryFrameTests {
    /// A frame of each kind with a payload that it may have.
    private static let frames: [(kind: QueryFrame.Kind, number: UInt32, payload: [UInt8])] = [
        (.part, 1, [1, 2, 3]), (.request, .max, [4]), (.credit, 7, []), (.cancel, 8, []),
        (.ping, 0, []), (.reply, 9, [UInt8](repeating: 5, count: 1_000)),
        (.received, 0, [0, 0, 1, 0]), (.pong, 0, []),
    ]

    @Test func frameIsReadAsItWasWritten() {
        #expect(Self.frames.map(\.kind) == QueryFrame.Kind.allCases)
        for (kind, number, payload) in Self.frames {
            let bytes = LinkWorld.bytes(kind, number, payload)
            let decoder = QueryFrameDecoder(isFromCoordinator: kind.isOfCoordinator)
            (bytes + [1, 2]).withUnsafeBytes { buffer in
                guard case .frame(let frame) = decoder.next(in: ByteView(buffer)) else {
                    Issue.record("\(kind) is not read")
                    return
                }
                #expect(frame.kind == kind && frame.number == number)
                #expect(frame.payload.bytes == payload && frame.byteCount == bytes.count)
            }
        }
    }

    @Test func beginningOfFrameIsIncomplete() {
        for (kind, number, payload) in Self.frames {
            let bytes = LinkWorld.bytes(kind, number, payload)
            let decoder = QueryFrameDecoder(isFromCoordinator: kind.isOfCoordinator)
            for length in 0..<bytes.count {
                bytes.withUnsafeBytes { buffer in
                    let outcome = decoder.next(in: ByteView(buffer).slice(0, length))
                    guard case .incomplete(let needed) = outcome else {
                        Issue.record("\(length) bytes of \(kind): \(outcome)")
                        return
                    }
                    let isKnown = length >= QueryFrame.headerBytes
                    #expect(needed == (isKnown ? bytes.count : 0))
                }
            }
        }
    }

    @Test func frameOfWrongSideIsInvalid() {
        for (kind, number, payload) in Self.frames {
            let bytes = LinkWorld.bytes(kind, number, payload)
            let decoder = QueryFrameDecoder(isFromCoordinator: !kind.isOfCoordinator)
            bytes.withUnsafeBytes { buffer in
                guard case .invalid = decoder.next(in: ByteView(buffer)) else {
                    Issue.record("\(kind) is accepted")
                    return
                }
            }
        }
    }

    @Test func anyBytesGiveAnOutcome() {
        var random = SeededRandom(seed: 17)
        for _ in 0..<20_000 {
            var bytes = (0..<Int(random.next() % 24)).map { _ in
                UInt8(truncatingIfNeeded: random.next())
            }
            if bytes.count > 8, random.next() % 2 == 0 {
                bytes.replaceSubrange(0..<3, with: [0, 0, 0])
                bytes[8] = [1, 2, 3, 4, 5, 16, 17, 18][Int(random.next() % 8)]
            }
            for isFromCoordinator in [false, true] {
                let decoder = QueryFrameDecoder(isFromCoordinator: isFromCoordinator)
                bytes.withUnsafeBytes { buffer in
                    let view = ByteView(buffer)
                    switch decoder.next(in: view) {
                    case .frame(let frame):
                        let written = LinkWorld.bytes(
                            frame.kind,
                            frame.number,
                            frame.payload.bytes
                        )
                        #expect(written == view.slice(0, frame.byteCount).bytes)
                    case .incomplete(let needed): #expect(needed == 0 || needed > view.count)
                    case .invalid: break
                    }
                }
            }
        }
    }

    // MARK: Wrong coordinators

    struct Wrong: Sendable, CustomTestStringConvertible {
        let bytes: [UInt8]
        let flaw: String

        init(_ flaw: String, _ bytes: [UInt8]...) {
            self.flaw = flaw
            self.bytes = bytes.flatMap { $0 }
        }

        var testDescription: String { flaw }
    }

    private static let part = LinkWorld.bytes(.part, 1, [1])

    static let wrongCoordinators = [
        Wrong("a frame of the unknown kind 9", [0, 0, 0, 0, 0, 0, 0, 1, 9]),
        Wrong("a frame of the unknown kind 16", LinkWorld.bytes(.reply, 1, [4])),
        Wrong("a frame of kind 2 with 16385 bytes", [0, 0, 0x40, 1, 0, 0, 0, 1, 2]),
        Wrong("a frame of kind 1 with 4294967295 bytes", [255, 255, 255, 255, 0, 0, 0, 1, 1]),
        Wrong("a frame of kind 1 with 0 bytes", LinkWorld.bytes(.part, 1)),
        Wrong("a frame of kind 3 with 1 bytes", LinkWorld.bytes(.credit, 1, [1])),
        Wrong("a frame of kind 2 with the number 0", LinkWorld.bytes(.request, 0, [1])),
        Wrong("a frame of kind 5 with the number 3", LinkWorld.bytes(.ping, 3)),
        Wrong("a credit for no query", LinkWorld.bytes(.credit, 1)),
        Wrong("a credit for no query", part, LinkWorld.bytes(.credit, 1)),
        Wrong("the end of no query", LinkWorld.bytes(.cancel, 1)),
        Wrong("a request within another one", part, LinkWorld.bytes(.part, 2, [1])),
        Wrong(
            "a request a second time",
            part,
            LinkWorld.bytes(.cancel, 1),
            LinkWorld.bytes(.part, 1, [1])
        ),
        Wrong("an invalid request", LinkWorld.bytes(.request, 1, [200])),
        Wrong("too many pings", (0..<65).flatMap { _ in LinkWorld.bytes(.ping, 0) }),
    ]

    @Test(arguments: wrongCoordinators)
    func wrongFrameClosesItsConnectionOnly(_ wrong: Wrong) async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let query = try world.send(try LinkWorld.request())
        let asked = try #require(await world.asked.wait().first)
        let connection = try await world.connectRaw()
        connection.send(wrong.bytes)
        #expect(await eventually { connection.isClosed })
        #expect(await eventually { !world.warnings.isEmpty })
        let warnings = world.warnings
        let expected = "views: Closing the connection for queries of node n1: it sent \(wrong.flaw)"
        #expect(warnings.count == 1 && warnings[0].hasPrefix(expected), "\(warnings)")
        asked.reply(.end)
        #expect(await query.events.wait() == ["end"])
        #expect(world.asked.values.count == 1 && world.dials.values.count == 1)
    }

    @Test func creditBeyondBoundClosesConnectionAndCancelsItsQueries() async throws {
        let world = try LinkWorld()
        defer { world.end() }
        let connection = try await world.connectRaw()
        let request = try LinkWorld.request().encoded
        connection.send(LinkWorld.bytes(.request, 1, request))
        let asked = try #require(await world.asked.wait().first)
        connection.send(LinkWorld.bytes(.credit, 1))
        #expect(await eventually { connection.isClosed && asked.isCancelled })
        #expect(asked.credits == 0)
    }

    // MARK: Wrong responders

    static let wrongResponders: [Wrong] = {
        let rows = LinkWorld.bytes(.reply, 1, [2, 0, 0, 0, 0])
        return [
            Wrong("a frame of the unknown kind 2", LinkWorld.bytes(.request, 1, [1])),
            Wrong("a frame of kind 16 with 4194305 bytes", [0, 0x40, 0, 1, 0, 0, 0, 1, 16]),
            Wrong("a reply to no request", LinkWorld.bytes(.reply, 3, [4])),
            Wrong("an invalid reply", LinkWorld.bytes(.reply, 1, [99])),
            Wrong("more rows than requested", rows, rows, rows),
            Wrong(
                "an acknowledgement of more than it received",
                LinkWorld.bytes(.received, 0, [0, 1, 0, 0])
            ),
        ]
    }()

    @Test(arguments: wrongResponders)
    func wrongReplyLosesQueriesOfItsConnection(_ wrong: Wrong) async throws {
        let raw = Signal<RawConnection>()
        let world = try LinkWorld(raw: raw)
        defer { world.end() }
        let query = try world.send(try LinkWorld.request())
        let other = try world.send(try LinkWorld.request())
        let connection = try #require(await raw.wait().first)
        let isSent = await eventually {
            connection.frames(isFromCoordinator: true).count == 2
        }
        #expect(isSent)
        connection.send(wrong.bytes)
        let events = await other.events.wait()
        #expect(
            events.count == 1 && events[0].hasPrefix("lost: it sent \(wrong.flaw)"),
            "\(events)"
        )
        #expect(query.events.values.last == events[0])
        #expect(await eventually { connection.isClosed })
        #expect(world.warnings.count == 1)
    }

    @Test func replyBeforeEndOfRequestIsRefused() async throws {
        let raw = Signal<RawConnection>()
        let world = try LinkWorld(raw: raw)
        defer { world.end() }
        let query = try world.send(try LinkWorld.request(boundBytes: 100_000))
        let connection = try #require(await raw.wait().first)
        connection.send(LinkWorld.bytes(.reply, 1, [4]))
        let expected = "lost: it sent a reply before the end of the request"
        #expect(await query.events.wait() == [expected])
    }

    /// A request that is not acknowledged is held back, and a cancellation overtakes the rest of it.
    @Test func requestsAreSentAsTheWindowAllows() async throws {
        let raw = Signal<RawConnection>()
        let world = try LinkWorld(raw: raw)
        defer { world.end() }
        let large = try world.send(try LinkWorld.request(boundBytes: 100_000))
        let small = try world.send(try LinkWorld.request())
        let connection = try #require(await raw.wait().first)
        func frames() -> [String] { connection.frames(isFromCoordinator: true) }
        #expect(await eventually { frames().count == 2 })
        large.call.cancel()
        #expect(await eventually { frames().count == 3 })
        #expect(frames() == ["part 1 16384", "part 1 16384", "cancel 1 0"])
        connection.send(LinkWorld.bytes(.received, 0, [0, 0, 0x80, 0]))
        #expect(await eventually { frames().count == 4 })
        let length = try LinkWorld.request().encoded.count
        #expect(frames().last == "request 2 \(length)")
        // A query that is cancelled before it is sent leaves no trace.
        connection.send(LinkWorld.bytes(.reply, 1, [4]) + LinkWorld.bytes(.reply, 2, [4]))
        #expect(await small.events.wait() == ["end"])
        #expect(large.events.values.isEmpty && world.warnings.isEmpty)
    }
}
