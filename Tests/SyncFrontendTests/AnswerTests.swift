import Bytes
import Deflate
import SyncFrontend
import SyncWire
import TestSupport
import Testing

/// What answers look like, whole and streamed, plain and compressed.
@Suite struct AnswerTests {
    private static let row = #"{"seq":9,"id":"p1","changes":[{"rev":"1-7c19"}]}"# + "\n"

    /// `/db/doc?rows=N` answers with that many rows of JSON; `/db/_changes?rows=N` streams them, and flushes each
    /// one if `flush=true`.
    private static func site(_ settings: GatewaySettings = GatewaySettings()) throws -> Site {
        try Site(settings: settings) {
            [
                GatewayRoute([.get, .put, .delete, .post], "/{db}/{doc}") { exchange in
                    let body = ByteWriter()
                    let query = exchange.request.query
                    for _ in 0..<(query.integer("rows") ?? 1) { body.append(text: row) }
                    let type = query["type"] ?? "application/json"
                    let status = query.integer("status") ?? 200
                    var headers: AnswerHeaders = ["Content-Type": type]
                    if let coding = query["coding"] { headers["Content-Encoding"] = coding }
                    exchange.answer(status, headers, body: body.view)
                },
                GatewayRoute([.get], "/{db}/_changes") { exchange in
                    let query = exchange.request.query
                    exchange.begin(200, ["Content-Type": "application/json"])
                    for _ in 0..<(query.integer("rows") ?? 1) {
                        row.withView { exchange.write($0) }
                        if query.bool("flush") { exchange.flush() }
                    }
                    exchange.end()
                },
                GatewayRoute([.get], "/{db}/_header") { exchange in
                    exchange.headers.add("Set-Cookie", "a=1")
                    exchange.headers.add("Set-Cookie", "b=2")
                    exchange.headers["Etag"] = exchange.request.query["value"]
                    exchange.refuse(Refusal(409, "no\u{1f}"))
                },
                GatewayRoute([.get], "/{db}/_empty") { $0.answer(200) },
                GatewayRoute([.get], "/{db}/_broken") { exchange in
                    exchange.begin(200)
                    row.withView { exchange.write($0) }
                    exchange.flush()
                    exchange.refuse(Refusal(500, "too late"))
                },
            ]
        }
    }

    private static func inflated(_ bytes: [UInt8]) throws -> String {
        let (inflater, output) = (Inflater(.gzip), ByteWriter())
        let consumed = try bytes.withUnsafeBytes {
            try inflater.inflate(ByteView($0), to: output, atMost: 10 << 20)
        }
        #expect(consumed == bytes.count)
        return output.view.text
    }

    private static func rows(_ count: Int) -> String { String(repeating: row, count: count) }

    @Test func headIsAnsweredWithoutBody() throws {
        let site = try Self.site()
        let client = try site.client()
        for path in ["/db/doc", "/db/doc?type=text/plain", "/db/_changes", "/db/_empty"] {
            try client.send(request("HEAD \(path)"))
            let answer = try client.answer(toHead: true)
            #expect(answer.status == 200)
            // JSON has no length there, as in Sync Gateway.
            let length = path.contains("plain") ? "\(Self.row.utf8.count)" : nil
            #expect(answer.headers["content-length"] == (path.hasSuffix("empty") ? "0" : length))
        }
        try client.send(request("GET /db/doc"))
        #expect(try client.answer().text == Self.row)
        #expect(client.received.isEmpty)
    }

    @Test func longJSONIsCompressedForClientsThatAcceptIt() throws {
        let site = try Self.site()
        let client = try site.client()
        for (path, fields, isCompressed) in [
            ("/db/doc?rows=100", "Accept-Encoding: gzip", true),
            ("/db/doc?rows=100", "Accept-Encoding: deflate, GZIP;q=0.5", true),
            ("/db/doc?rows=100&type=text/html", "Accept-Encoding: gzip", true),
            ("/db/doc?rows=100&type=multipart/mixed", "Accept-Encoding: gzip", true),
            ("/db/doc?rows=100", "Accept-Encoding: gzip;q=0", false),
            ("/db/doc?rows=100", "Accept-Encoding: identity", false),
            ("/db/doc?rows=100", "X: gzip", false),
            ("/db/doc?rows=10", "Accept-Encoding: gzip", false),
            ("/db/doc?rows=100&type=image/png", "Accept-Encoding: gzip", false),
            ("/db/doc?rows=100&type=multipart/related", "Accept-Encoding: gzip", false),
            ("/db/doc?rows=100&status=404", "Accept-Encoding: gzip", false),
            ("/db/doc?rows=100&coding=br", "Accept-Encoding: gzip", false),
        ] {
            try client.send(request("GET \(path)", fields))
            let answer = try client.answer()
            let rows = path.contains("rows=100") ? 100 : 10
            #expect((answer.headers["content-encoding"] == "gzip") == isCompressed, "\(path)")
            let text = isCompressed ? try Self.inflated(answer.body) : answer.text
            #expect(text == Self.rows(rows), "\(path)")
        }
    }

    @Test(arguments: ["PUT", "DELETE"])
    func answersToChangesAreNotCompressed(_ method: String) throws {
        let site = try Self.site()
        let text = request("\(method) /db/doc?rows=100", "Accept-Encoding: gzip")
        #expect(try site.answer(to: text).text == Self.rows(100))
    }

    @Test func settingTurnsCompressionOff() throws {
        var settings = GatewaySettings()
        settings.compressesAnswers = false
        let site = try Self.site(settings)
        for path in ["/db/doc?rows=100", "/db/_changes?rows=100"] {
            let text = request("GET \(path)", "Accept-Encoding: gzip")
            #expect(try site.answer(to: text).text == Self.rows(100))
        }
    }

    @Test func shortStreamHasALength() throws {
        let site = try Self.site()
        let answer = try site.answer(to: request("GET /db/_changes?rows=3"))
        #expect(answer.headers["content-length"] == "\(3 * Self.row.utf8.count)")
        #expect(answer.text == Self.rows(3))
    }

    @Test func longOrFlushedStreamIsChunked() throws {
        let site = try Self.site()
        let client = try site.client()
        for query in ["rows=5000", "rows=3&flush=true"] {
            try client.send(request("GET /db/_changes?\(query)"))
            let answer = try client.answer()
            #expect(answer.headers["transfer-encoding"] == "chunked")
            #expect(answer.headers["content-length"] == nil)
            #expect(answer.text == Self.rows(query == "rows=5000" ? 5_000 : 3))
        }
    }

    @Test func streamWithoutChunksEndsWithTheConnection() throws {
        let site = try Self.site()
        let client = try site.client()
        try client.send(
            "GET /db/_changes?rows=3&flush=true HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        )
        let text = String(decoding: try client.bytesToEnd(), as: UTF8.self)
        #expect(text.contains("Connection: close\r\n"))
        #expect(text.hasSuffix("\r\n\r\n" + Self.rows(3)))
    }

    @Test func flushedPartOfACompressedStreamCanBeInflatedAtOnce() async throws {
        let held = Held()
        let site = try Site {
            [
                GatewayRoute([.get], "/{db}/_changes") { exchange in
                    held.keep(exchange)
                    exchange.begin(200, ["Content-Type": "application/json"])
                }
            ]
        }
        let client = try site.client()
        try client.send(request("GET /db/_changes", "Accept-Encoding: gzip"))
        try await waitUntil("the request arrives") { held.count > 0 }
        let (inflater, output) = (Inflater(.gzip), ByteWriter())
        for number in 1...3 {
            site.lane.post {
                Self.row.withView { held[0].write($0) }
                held[0].flush()
            }
            if number == 1 {
                #expect(try client.head().headers["content-encoding"] == "gzip")
            }
            let chunk = try #require(try client.chunk())
            _ = try chunk.withUnsafeBytes {
                try inflater.inflate(ByteView($0), to: output, atMost: 1 << 20)
            }
            #expect(output.view.text == Self.rows(number))
        }
        site.lane.post { held[0].end() }
        let last = try #require(try client.chunk())
        _ = try last.withUnsafeBytes {
            try inflater.inflate(ByteView($0), to: output, atMost: 1 << 20)
        }
        #expect(inflater.isAtEnd)
        #expect(try client.chunk() == nil)
    }

    @Test func headersOfTheExchangeAreSentWithARefusal() throws {
        let site = try Self.site()
        let client = try site.client()
        try client.send(request("GET /db/_header?value=a%0D%0AInjected:%20b"))
        let head = String(decoding: try client.bytes(through: "\r\n\r\n"), as: UTF8.self)
        #expect(head.hasPrefix("HTTP/1.1 409 Conflict\r\n"))
        #expect(head.contains("\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"))
        #expect(head.contains("\r\nEtag: a  Injected: b\r\n"))
        #expect(head.contains("\r\nContent-Type: application/json\r\n"))
    }

    @Test func emptyAnswerHasALengthAndNoType() throws {
        let answer = try Self.site().answer(to: request("GET /db/_empty"))
        #expect(answer.headers["content-length"] == "0")
        #expect(answer.headers["content-type"] == nil)
    }

    @Test func failedAnswerClosesWithoutLastChunk() throws {
        let site = try Self.site()
        let client = try site.client()
        try client.send(request("GET /db/_broken"))
        #expect(try client.head().status == 200)
        #expect(try client.chunk().map { String(decoding: $0, as: UTF8.self) } == Self.row)
        #expect(client.isClosed())
        #expect(client.received.isEmpty)
    }

    @Test func clientThatReadsSlowlyStopsTheStream() async throws {
        let held = Held()
        let site = try Site {
            [
                GatewayRoute([.get], "/{db}/_changes") { exchange in
                    exchange.begin(200, ["Content-Type": "application/json"])
                    Self.fill(exchange, 0, held)
                }
            ]
        }
        let client = try site.client(receiveBytes: 16_384)
        try client.send(request("GET /db/_changes"))
        try await waitUntil("the stream stops") { !held.texts.isEmpty }
        // A socket of the kernel has some megabytes, and the server's buffer 64 KiB.
        #expect(Int(held.texts[0]) ?? 0 < 32 << 20)
        let answer = try client.answer()
        #expect(answer.body.count == Self.streamBytes)
    }

    private static let streamBytes = 64 << 20
    private static let piece = String(repeating: "x", count: 16 << 10)

    /// Writes until the socket is full, and again when it has room.
    private static func fill(_ exchange: GatewayExchange, _ written: Int, _ held: Held) {
        var written = written
        while written < streamBytes {
            guard exchange.isWritable else {
                let soFar = written
                held.note("\(soFar)")
                return exchange.whenWritable { fill(exchange, soFar, held) }
            }
            piece.withView { exchange.write($0) }
            written += piece.utf8.count
        }
        exchange.end()
    }

    @Test func clientThatReadsNothingKeepsFewAnswersInMemory() throws {
        let site = try Self.site()
        let client = try site.client(receiveBytes: 16_384)
        let requests = Array(request("GET /db/doc?rows=200").utf8)
        let many = (0..<200).flatMap { _ in requests }
        let sent = client.sendUntilFull(many, atMost: 1 << 30)
        let served = try site.lane.run { [server = site.server] in server.requestCount }
        #expect(sent / requests.count > Int(served) || sent < 64 << 20)
        #expect(served * 10_000 < 64 << 20)
    }

    @Test func clientThatNeverReadsIsClosedInTime() async throws {
        var settings = GatewaySettings()
        settings.timeouts.send = 1
        let held = Held()
        let site = try Site(settings: settings) {
            [
                GatewayRoute([.get], "/{db}/_changes") { exchange in
                    exchange.whenClosed { held.note("closed") }
                    exchange.begin(200, ["Content-Type": "application/json"])
                    Self.fill(exchange, 0, Held())
                }
            ]
        }
        let client = try site.client(receiveBytes: 16_384)
        try client.send(request("GET /db/_changes"))
        try await waitUntil("the client is closed") { !held.texts.isEmpty }
        #expect(client.isClosed())
    }
}
