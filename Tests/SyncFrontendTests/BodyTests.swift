import Bytes
import Deflate
import SyncFrontend
import SyncWire
import TestSupport
import Testing

/// How bodies of requests arrive at handlers.
@Suite(.serialized) struct BodyTests {
    private static let bytesMax = 4 << 20

    /// `PUT /db/doc` collects its body, `PUT /db/doc/x` streams it: both answer with its length and its checksum.
    private static func site(_ held: Held = Held()) throws -> Site {
        try Site {
            [
                GatewayRoute([.put], "/{db}/{doc}") { exchange in
                    exchange.readBody(atMost: bytesMax) { body in
                        switch body {
                        case .success(let bytes): exchange.answer(text: summary(bytes.view))
                        case .failure(let refusal): exchange.refuse(refusal)
                        }
                    }
                },
                GatewayRoute([.put], "/{db}/{doc}/{attachment...}") { exchange in
                    let all = ByteWriter()
                    exchange.streamBody { part throws(Refusal) in
                        if all.count > bytesMax { throw Refusal(413, "too long") }
                        all.append(part)
                    } _: { refusal in
                        if let refusal { return exchange.refuse(refusal) }
                        exchange.answer(text: summary(all.view))
                    }
                },
                GatewayRoute([.post], "/{db}/") { $0.answer(text: "unread") },
            ]
        }
    }

    private static func summary(_ bytes: ByteView) -> String {
        "\(bytes.count) \(CRC32C.checksum(bytes))"
    }

    private static func summary(_ bytes: [UInt8]) -> String {
        bytes.withUnsafeBytes { summary(ByteView($0)) }
    }

    /// Bytes that compress to about a half.
    private static func bytes(_ count: Int) -> [UInt8] {
        var random = SeededRandom(seed: 1)
        return (0..<count).map { _ in UInt8(random.next() & 15) }
    }

    private static func gzip(_ bytes: [UInt8]) -> [UInt8] {
        let output = ByteWriter()
        let deflater = Deflater(.gzip)
        bytes.withUnsafeBytes { deflater.deflate(ByteView($0), to: output) }
        deflater.finish(to: output)
        return output.bytes
    }

    private static func head(_ path: String, _ fields: String...) -> String {
        "PUT \(path) HTTP/1.1\r\nHost: a\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    private static func chunked(_ bytes: [UInt8], size: Int) -> [UInt8] {
        var chunks: [UInt8] = []
        for start in stride(from: 0, to: bytes.count, by: size) {
            let part = bytes[start..<min(start + size, bytes.count)]
            chunks += Array("\(String(part.count, radix: 16));name=value\r\n".utf8) + part
            chunks += Array("\r\n".utf8)
        }
        return chunks + Array("0\r\nTrailer: x\r\n\r\n".utf8)
    }

    @Test(arguments: ["/db/doc", "/db/doc/a/b"], [0, 1, 999, 70_000, 3_000_000])
    func bodyOfEveryFormArrives(_ path: String, _ count: Int) throws {
        let site = try Self.site()
        let (bytes, client) = (Self.bytes(count), try site.client())
        let small = Self.gzip(bytes)
        let gzipped = "Content-Encoding: gzip"
        let forms: [[UInt8]] = [
            Array(Self.head(path, "Content-Length: \(count)").utf8) + bytes,
            Array(Self.head(path, "Transfer-Encoding: chunked").utf8)
                + Self.chunked(bytes, size: 10_000),
            Array(Self.head(path, gzipped, "Content-Length: \(small.count)").utf8) + small,
            Array(Self.head(path, gzipped, "Transfer-Encoding: chunked").utf8)
                + Self.chunked(small, size: 777),
        ]
        for form in forms {
            try client.send(form)
            #expect(try client.answer().text == Self.summary(bytes))
        }
    }

    @Test func bodyBeyondItsBoundIsRefused() throws {
        let site = try Self.site()
        let bytes = Self.bytes(Self.bytesMax + 1)
        let small = Self.gzip(bytes)
        for path in ["/db/doc", "/db/doc/a"] {
            let client = try site.client()
            let head = Self.head(path, "Content-Encoding: gzip", "Content-Length: \(small.count)")
            try client.send(Array(head.utf8) + small)
            // A streamed one is refused by the test's own handler, and only behind the bound.
            #expect(try client.answer().status == (path == "/db/doc" ? 413 : 200))
        }
        let client = try site.client()
        try client.send(Self.head("/db/doc", "Content-Length: \(bytes.count)"))
        let answer = try client.answer()
        #expect(answer.status == 413)
        #expect(answer.headers["connection"] == "close")
    }

    @Test func refusalOfAStreamReachesTheClient() throws {
        let site = try Self.site()
        let client = try site.client()
        try client.send(
            Array(Self.head("/db/doc/a", "Transfer-Encoding: chunked").utf8)
                + Self.chunked(Self.bytes(Self.bytesMax + 200_000), size: 65_000)
        )
        let answer = try client.answer()
        #expect(answer.status == 413)
        #expect(answer.text.contains("too long"))
        // Little is left of the body: the connection serves the next request.
        try client.send(request("POST /db/"))
        #expect(try client.answer().text == "unread")
    }

    @Test(arguments: ["/db/doc", "/db/doc/a"])
    func bodyThatIsNoGzipIsRefused(_ path: String) throws {
        let site = try Self.site()
        let whole = Self.gzip(Self.bytes(1_000))
        var damaged = whole
        damaged[whole.count / 2] ^= 0xff
        for bytes in [Array("no gzip at all".utf8), damaged, Array(whole.dropLast(9)), [0x1f]] {
            let client = try site.client()
            let head = Self.head(path, "Content-Encoding: gzip", "Content-Length: \(bytes.count)")
            try client.send(Array(head.utf8) + bytes)
            #expect(try client.answer().status == 400)
            try client.send(request("POST /db/"))
            #expect(try client.answer().text == "unread")
        }
    }

    @Test(arguments: ["/db/doc", "/db/doc/a"])
    func gzipBombIsRefusedInBoundedMemory(_ path: String) throws {
        let site = try Self.site()
        let bomb = Self.gzip([UInt8](repeating: 0x20, count: 64 << 20))
        #expect(bomb.count * 900 < 64 << 20)
        let before = try ProcessMemory.residentBytes()
        let client = try site.client()
        let head = Self.head(path, "Content-Encoding: gzip", "Content-Length: \(bomb.count)")
        try client.send(Array(head.utf8) + bomb)
        let answer = try client.answer()
        #expect(answer.status == 413)
        #expect(answer.text.contains("100 times"))
        #expect(try ProcessMemory.residentBytes() - before < 16 << 20)
    }

    @Test func codingBesideGzipIsRefused() throws {
        let site = try Self.site()
        for coding in ["deflate", "br", "gzip, gzip"] {
            let text = request("PUT /db/doc", "Content-Encoding: \(coding)", body: "x")
            let answer = try site.answer(to: text)
            #expect(answer.status == 415)
            #expect(answer.text.contains(#""reason":"Unsupported Content-Encoding; use gzip""#))
        }
    }

    @Test func bodyThatNoHandlerReadsIsDropped() throws {
        let site = try Self.site()
        let client = try site.client()
        let body = String(repeating: "x", count: 900_000)
        for _ in 0..<3 {
            try client.send(request("POST /db/", body: body))
            #expect(try client.answer().text == "unread")
        }
    }

    @Test func longBodyThatNoHandlerReadsEndsTheConnection() throws {
        let site = try Self.site()
        let client = try site.client()
        try client.send("POST /db/ HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\nbegin")
        #expect(try client.answer().headers["connection"] == "close")
        #expect(client.isClosed())

        let endless = try site.client()
        try endless.send("POST /db/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        let chunk = Array("10000\r\n".utf8) + [UInt8](repeating: 0x78, count: 65_536)
        // The server stops reading and closes: an error of the client's socket ends this.
        for _ in 0..<1_000 where (try? endless.send(chunk + Array("\r\n".utf8))) == nil { break }
        #expect(endless.isClosed())
    }

    @Test func clientIsAskedForItsBodyOnlyByAHandlerThatReadsIt() throws {
        let site = try Self.site()
        let client = try site.client()
        try client.send(Self.head("/db/doc", "Content-Length: 4", "Expect: 100-continue"))
        #expect(try client.head().status == 100)
        try client.send("body")
        #expect(try client.answer().text == Self.summary(Array("body".utf8)))

        try client.send(request("POST /db/", "Content-Length: 4", "Expect: 100-continue"))
        let answer = try client.answer()
        #expect(answer.text == "unread")
        #expect(answer.headers["connection"] == "close")
    }

    @Test func pausedBodyStopsTheClient() throws {
        let held = Held()
        let isFree = Guarded(false)
        let site = try Site {
            [
                GatewayRoute([.put], "/{db}/{doc}") { exchange in
                    held.keep(exchange)
                    var sum = 0
                    exchange.streamBody { part throws(Refusal) in
                        sum += part.count
                        held.note("\(sum)")
                        guard !isFree.withLock({ $0 }) else { return }
                        exchange.pauseBody()
                    } _: { _ in
                        exchange.answer(text: "\(sum)")
                    }
                }
            ]
        }
        let client = try site.client()
        let count = 64 << 20
        try client.send(Self.head("/db/doc", "Content-Length: \(count)"))
        let sent = client.sendUntilFull([UInt8](repeating: 0x78, count: 65_536), atMost: count)
        #expect(sent < count / 2)
        #expect(held.texts.count == 1)
        isFree.withLock { $0 = true }
        site.lane.post { held[0].resumeBody() }
        try client.send([UInt8](repeating: 0x78, count: count - sent))
        #expect(try client.answer().text == "\(count)")
    }

    @Test func pausedInflatingBodyKeepsItsOrder() async throws {
        let held = Held()
        let site = try Site {
            [
                GatewayRoute([.put], "/{db}/{doc}") { exchange in
                    held.keep(exchange)
                    let all = ByteWriter()
                    exchange.streamBody { part throws(Refusal) in
                        all.append(part)
                        exchange.pauseBody()
                    } _: { _ in
                        held.note("over")
                        exchange.answer(text: Self.summary(all.view))
                    }
                }
            ]
        }
        let bytes = Self.bytes(500_000)
        let small = Self.gzip(bytes)
        let client = try site.client()
        let head = Self.head("/db/x", "Content-Encoding: gzip", "Content-Length: \(small.count)")
        try client.send(Array(head.utf8) + small)
        try await waitUntil("the whole body arrives") {
            if held.count > 0 { site.lane.post { held[0].resumeBody() } }
            return !held.texts.isEmpty
        }
        #expect(try client.answer().text == Self.summary(bytes))
    }

    @Test func largeBodiesShareABudget() throws {
        var settings = GatewaySettings()
        settings.bodyBytesMax = 1 << 20
        let held = Held()
        let site = try Site(settings: settings) {
            [
                GatewayRoute([.put], "/{db}/{doc}") { exchange in
                    exchange.readBody(atMost: 1 << 30) { body in
                        switch body {
                        case .success:
                            exchange.parameters["doc"] == "kept"
                                ? held.keep(exchange) : exchange.answer(201)
                        case .failure(let refusal): exchange.refuse(refusal)
                        }
                    }
                }
            ]
        }
        let body = String(repeating: "x", count: 700_000)
        let first = try site.client()
        try first.send(request("PUT /db/kept", body: body))
        try waitUntil("the first body is collected") { held.count == 1 }
        #expect(try site.answer(to: request("PUT /db/x", body: body)).status == 503)
        #expect(try site.answer(to: request("PUT /db/x", body: "small")).status == 201)
        site.lane.post { held[0].answer(201) }
        #expect(try first.answer().status == 201)
        #expect(try site.answer(to: request("PUT /db/x", body: body)).status == 201)
    }
}
