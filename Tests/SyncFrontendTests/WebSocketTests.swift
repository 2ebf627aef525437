import Bytes
import Seams
import SyncFrontend
import SyncWire
import TestSupport
import Testing

/// Upgrades, messages and closes of WebSockets.
@Suite struct WebSocketTests {
    /// Echoes messages; a text `close` closes, `flood` sends until the socket is full.
    private static func site(_ held: Held = Held()) throws -> Site {
        var settings = GatewaySettings()
        settings.timeouts.linger = 1
        return try Site(settings: settings) {
            [
                GatewayRoute([.get], "/{db}/_blipsync") { exchange in
                    guard exchange.request.header("Authorization") != nil else {
                        exchange.headers["WWW-Authenticate"] = "Basic"
                        return exchange.refuse(Refusal(401, "Login required"))
                    }
                    let chosen = exchange.request.webSocketProtocols.first { $0 == "BLIP_3" }
                    exchange.upgradeToWebSocket(subprotocol: chosen) { socket, event in
                        handle(event, of: socket, held)
                    }
                }
            ]
        }
    }

    private static func handle(
        _ event: WebSocketEvent,
        of socket: WebSocketConnection,
        _ held: Held
    ) {
        switch event {
        case .opened: held.note("opened")
        case .closed: held.note("closed")
        case .writable: held.note("writable")
        case .binary(let bytes): socket.send(binary: bytes)
        case .text(let text):
            switch text.text {
            case "close": socket.close(code: 1_001, reason: "bye")
            case "flood":
                let piece = String(repeating: "x", count: 65_000)
                while socket.isWritable { piece.withView { socket.send(text: $0) } }
            default: socket.send(text: text)
            }
        }
    }

    private static func open(_ site: Site) throws -> RawClient {
        let client = try site.client()
        try client.send(handshake())
        let answer = try client.head()
        #expect(answer.status == 101)
        return client
    }

    private static func handshake(_ fields: String...) -> String {
        var all = [
            "Upgrade: websocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Authorization: x",
        ]
        all += fields
        let lines = all.map { "\($0)\r\n" }.joined()
        return "GET /db/_blipsync HTTP/1.1\r\nHost: a\r\n\(lines)\r\n"
    }

    private static func frame(
        _ opcode: UInt8,
        _ payload: [UInt8],
        isLast: Bool = true,
        isMasked: Bool = true
    ) -> [UInt8] {
        var frame = [opcode | (isLast ? 0x80 : 0)]
        let mask: UInt8 = isMasked ? 0x80 : 0
        if payload.count < 126 {
            frame.append(UInt8(payload.count) | mask)
        } else if payload.count < 65_536 {
            frame += [126 | mask, UInt8(payload.count >> 8), UInt8(payload.count & 0xff)]
        } else {
            frame.append(127 | mask)
            frame += (0..<8).map { UInt8(payload.count >> (56 - 8 * $0) & 0xff) }
        }
        let key: [UInt8] = [1, 2, 3, 4]
        if isMasked { frame += key }
        return frame
            + payload.enumerated().map { isMasked ? $0.element ^ key[$0.offset & 3] : $0.element }
    }

    private static func received(_ client: RawClient) throws -> (opcode: UInt8, payload: [UInt8]) {
        let head = try client.bytes(2)
        #expect(head[0] & 0x80 != 0)
        var count = Int(head[1])
        if count >= 126 {
            count = try client.bytes(count == 126 ? 2 : 8).reduce(0) { $0 << 8 | Int($1) }
        }
        return (head[0] & 0x0f, try client.bytes(count))
    }

    @Test func handshakeIsAnsweredWithTheProofAndTheSubprotocol() throws {
        let site = try Self.site()
        let client = try site.client()
        try client.send(Self.handshake("Sec-WebSocket-Protocol: BLIP_4, BLIP_3"))
        let answer = try client.head()
        #expect(answer.line == "HTTP/1.1 101 Switching Protocols")
        // The example of RFC 6455, section 1.3.
        #expect(answer.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        #expect(answer.headers["sec-websocket-protocol"] == "BLIP_3")
        #expect(answer.headers["upgrade"] == "websocket")
        #expect(answer.headers["content-length"] == nil)
    }

    @Test func routeMayRefuseBeforeTheUpgrade() throws {
        let site = try Self.site()
        let text = Self.handshake().replacing("Authorization", with: "X")
        let client = try site.client()
        try client.send(text)
        let answer = try client.answer()
        #expect(answer.status == 401)
        #expect(answer.headers["www-authenticate"] == "Basic")
        #expect(answer.headers["connection"] == "close")
        #expect(client.isClosed())
    }

    @Test func requestWithoutUpgradeIsRefused() throws {
        let site = try Self.site()
        let answer = try site.answer(to: request("GET /db/_blipsync", "Authorization: x"))
        #expect(answer.status == 426)
        #expect(answer.headers["upgrade"] == "websocket")
        let other = Self.handshake().replacing("Version: 13", with: "Version: 8")
        #expect(try site.answer(to: other).status == 400)
    }

    @Test(arguments: [0, 1, 125, 126, 65_535, 65_536, 1 << 20])
    func messageOfEverySizeIsEchoed(_ count: Int) throws {
        let site = try Self.site()
        let client = try Self.open(site)
        let payload = (0..<count).map { UInt8($0 % 251) }
        try client.send(Self.frame(2, payload))
        let echo = try Self.received(client)
        #expect(echo.opcode == 2)
        #expect(echo.payload == payload)
    }

    @Test func framesSentWithTheHandshakeAreReceived() throws {
        let site = try Self.site()
        let client = try site.client()
        try client.send(Array(Self.handshake().utf8) + Self.frame(1, Array("early".utf8)))
        #expect(try client.head().status == 101)
        #expect(try Self.received(client).payload == Array("early".utf8))
    }

    @Test func fragmentsAreJoinedAndPingsBetweenThemAnswered() throws {
        let site = try Self.site()
        let client = try Self.open(site)
        let text = Array("häppchen".utf8)
        // The first part ends within a letter.
        try client.send(Self.frame(1, Array(text[..<2]), isLast: false))
        try client.send(Self.frame(9, [7, 8]))
        try client.send(Self.frame(0, Array(text[2..<5]), isLast: false))
        try client.send(Self.frame(0, Array(text[5...])))
        let pong = try Self.received(client)
        #expect(pong.opcode == 10)
        #expect(pong.payload == [7, 8])
        let echo = try Self.received(client)
        #expect(echo.opcode == 1)
        #expect(echo.payload == text)
    }

    @Test func closeIsAnsweredAndEndsTheConnection() async throws {
        let held = Held()
        let site = try Self.site(held)
        let client = try Self.open(site)
        try client.send(Self.frame(8, [0x03, 0xe8]))
        let answer = try Self.received(client)
        #expect(answer.opcode == 8)
        #expect(answer.payload == [0x03, 0xe8])
        #expect(client.isClosed())
        #expect(held.texts == ["opened", "closed"])
    }

    @Test func closeOfTheServerWaitsForTheClientOnlyForATime() async throws {
        let held = Held()
        let site = try Self.site(held)
        for answers in [true, false] {
            let client = try Self.open(site)
            try client.send(Self.frame(1, Array("close".utf8)))
            let close = try Self.received(client)
            #expect(close.opcode == 8)
            #expect(close.payload == [0x03, 0xe9] + Array("bye".utf8))
            if answers { try client.send(Self.frame(8, [0x03, 0xe9])) }
            #expect(client.isClosed())
        }
        try await waitUntil("both are closed") { held.texts.count == 4 }
        #expect(held.texts == ["opened", "closed", "opened", "closed"])
    }

    @Test func lostClientIsReported() async throws {
        let held = Held()
        let site = try Self.site(held)
        do { _ = try Self.open(site) }
        try await waitUntil("the client is gone") { held.texts.count == 2 }
        #expect(held.texts == ["opened", "closed"])
        try await waitUntil("the connection is gone") { try! site.connectionCount == 0 }
    }

    /// What breaks the protocol, by its name in a failure.
    private static let broken: [String: (bytes: [UInt8], code: Int)] = [
        "no mask": (frame(2, [1], isMasked: false), 1_002),
        "unknown opcode": (frame(3, [1]), 1_002),
        "continuation of nothing": (frame(0, [1]), 1_002),
        "half a close code": (frame(8, [1]), 1_002),
        "fragmented ping": (frame(9, [1], isLast: false), 1_002),
        "message within a message": (frame(2, [1], isLast: false) + frame(2, [1]), 1_002),
        "long ping": (frame(9, [UInt8](repeating: 1, count: 126)), 1_002),
        "reserved bits": ([0xf2, 0x81, 1, 2, 3, 4, 5], 1_002),
        "no UTF-8": (frame(1, [0xff, 0xfe]), 1_007),
        "long frame": (frame(2, [UInt8](repeating: 1, count: 1 << 20 | 1)), 1_009),
        "long message": (
            frame(2, [UInt8](repeating: 1, count: 1 << 20), isLast: false) + frame(0, [1]), 1_009
        ),
    ]

    @Test(arguments: Array(broken.keys))
    func brokenProtocolIsClosedWithItsCode(_ name: String) throws {
        let (bytes, code) = try #require(Self.broken[name])
        let held = Held()
        let site = try Self.site(held)
        let client = try Self.open(site)
        try? client.send(bytes)
        let close = try Self.received(client)
        #expect(close.opcode == 8)
        #expect(close.payload == [UInt8(code >> 8), UInt8(code & 0xff)])
        #expect(client.isClosed())
        #expect(held.texts == ["opened", "closed"])
    }

    @Test func clientThatReadsSlowlyStopsTheSender() async throws {
        let held = Held()
        let site = try Self.site(held)
        let client = try Self.open(site)
        try client.send(Self.frame(1, Array("flood".utf8)))
        for _ in 0..<2 { #expect(try Self.received(client).payload.count == 65_000) }
        try await waitUntil("the socket has room again") { held.texts.contains("writable") }
    }

    @Test func pausedSocketStopsTheClient() async throws {
        let held = Held()
        let site = try Site {
            [
                GatewayRoute([.get], "/{db}/_blipsync") { exchange in
                    exchange.upgradeToWebSocket { socket, event in
                        if case .binary(let bytes) = event {
                            held.note("\(bytes.count)")
                            socket.pause()
                            let lane = exchange.lane
                            lane.post(after: 1_000_000) { socket.resume() }
                        }
                    }
                }
            ]
        }
        let client = try Self.open(site)
        for count in 1...20 {
            try client.send(Self.frame(2, [UInt8](repeating: 1, count: count)))
        }
        try await waitUntil("all messages arrive") { held.texts.count == 20 }
        #expect(held.texts == (1...20).map { "\($0)" })
    }
}
