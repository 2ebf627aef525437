import Bytes
import SyncFrontend
import SyncWire
import TestSupport
import Testing

/// What a connection does with whole, half and broken requests.
@Suite struct ConnectionTests {
    private static func echo() throws -> Site {
        try Site {
            [
                GatewayRoute([.get], "/{db}/") { $0.answer(text: $0.parameters["db"]) },
                GatewayRoute([.put], "/{db}/{doc}") { exchange in
                    exchange.readBody(atMost: 1 << 20) { body in
                        switch body {
                        case .success(let bytes): exchange.answer(201, body: bytes.view)
                        case .failure(let refusal): exchange.refuse(refusal)
                        }
                    }
                },
            ]
        }
    }

    private static func impatient() -> GatewaySettings {
        var settings = GatewaySettings()
        settings.timeouts.head = 1
        settings.timeouts.idle = 1
        settings.timeouts.body = 1
        settings.timeouts.send = 1
        settings.timeouts.linger = 1
        return settings
    }

    @Test func answerHasTheHeadersOfTheGateway() throws {
        let site = try Self.echo()
        let answer = try site.answer(to: request("GET /demo/"))
        #expect(answer.line == "HTTP/1.1 200 OK")
        #expect(answer.text == "demo")
        #expect(answer.headers["content-length"] == "4")
        #expect(answer.headers["content-type"] == "text/plain")
        // Couchbase Lite 1.x uses the gateway's own requests only with such a server.
        #expect(answer.headers["server"]?.hasPrefix("Couchbase Sync Gateway/1.4.1") == true)
        #expect(answer.headers["date"]?.hasSuffix(" GMT") == true)
        #expect(answer.headers["connection"] == nil)
    }

    @Test func requestHasItsHead() throws {
        let held = Held()
        let site = try Site {
            [
                GatewayRoute([.post], "/{db}/{doc}") { exchange in
                    let request = exchange.request
                    held.note(request.method)
                    held.note(request.target)
                    held.note(request.segments.joined(separator: "|"))
                    held.note(request.query["rev"] ?? "none")
                    held.note(request.remoteAddress)
                    held.note(request.header("x-one") ?? "none")
                    held.note(request.headers("X-ONE").joined(separator: "|"))
                    held.note(request.header("X-Two") ?? "none")
                    held.note("\(exchange.number)")
                    exchange.answer(201)
                }
            ]
        }
        let text = request("POST /db/a%2Fb?rev=1%2D2", "X-One: 1", "x-one: 2")
        #expect(try site.answer(to: text).status == 201)
        #expect(
            held.texts == [
                "POST", "/db/a%2Fb?rev=1%2D2", "db|a/b", "1-2", "127.0.0.1", "1", "1|2", "none",
                "1",
            ]
        )
    }

    @Test func connectionServesRequestsOneAfterTheOther() throws {
        let site = try Self.echo()
        let client = try site.client()
        for name in ["a", "b", "c"] {
            try client.send(request("GET /\(name)/"))
            #expect(try client.answer().text == name)
        }
    }

    @Test func pipelinedRequestsAreAnsweredInOrder() throws {
        let site = try Self.echo()
        let client = try site.client()
        let texts = (0..<50).map {
            $0 % 2 == 0 ? request("GET /db\($0)/") : request("PUT /db/x", body: "body\($0)")
        }
        try client.send(texts.joined())
        for index in 0..<50 {
            let answer = try client.answer()
            #expect(answer.text == (index % 2 == 0 ? "db\(index)" : "body\(index)"))
        }
    }

    @Test func requestBeginsOnlyWhenTheOneBeforeIsAnswered() async throws {
        let held = Held()
        let site = try Site { [GatewayRoute([.get], "/{db}/") { held.keep($0) }] }
        let client = try site.client()
        try client.send(request("GET /first/") + request("GET /second/"))
        try await waitUntil("the first request arrives") { held.count > 0 }
        #expect(held.count == 1)
        site.lane.post { held[0].answer(text: "1") }
        #expect(try client.answer().text == "1")
        try await waitUntil("the second request arrives") { held.count > 1 }
        site.lane.post { held[1].answer(text: "2") }
        #expect(try client.answer().text == "2")
    }

    @Test func requestInSingleBytesIsServed() throws {
        let site = try Self.echo()
        let client = try site.client()
        for byte in Array(request("PUT /db/x", body: "body").utf8) { try client.send([byte]) }
        #expect(try client.answer().text == "body")
    }

    @Test(arguments: [
        "nonsense\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "PUT /db/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "PUT /db/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        "\u{1}\u{2}\u{3}\r\n\r\n",
    ])
    func garbageIsRefusedAndEndsTheConnection(_ text: String) throws {
        let site = try Self.echo()
        let client = try site.client()
        try client.send(text)
        let answer = try client.answer()
        #expect(answer.status == 400)
        #expect(answer.headers["connection"] == "close")
        #expect(answer.text.contains(#""error":"Bad Request""#))
        #expect(client.isClosed())
    }

    @Test func answersBeforeGarbageAreSent() throws {
        let site = try Self.echo()
        let client = try site.client()
        try client.send(request("GET /db/") + "nonsense\r\n\r\n")
        #expect(try client.answer().text == "db")
        #expect(try client.answer().status == 400)
        #expect(client.isClosed())
    }

    @Test func brokenChunkFailsTheBodyAndEndsTheConnection() throws {
        let site = try Self.echo()
        let client = try site.client()
        let head = "PUT /db/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        try client.send(head + "4\r\nbody\r\nxyz\r\n")
        #expect(try client.answer().status == 400)
        #expect(client.isClosed())
    }

    @Test func requestWithoutHostIsRefused() throws {
        let site = try Self.echo()
        #expect(try site.answer(to: "GET /db/ HTTP/1.1\r\n\r\n").status == 400)
        #expect(
            try site.answer(to: "GET /db/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").status == 400
        )
        #expect(try site.answer(to: "GET /db/ HTTP/1.0\r\n\r\n").status == 200)
    }

    @Test func headBeyondTheBoundIsRefused() throws {
        let site = try Self.echo()
        let long = String(repeating: "x", count: 70_000)
        #expect(try site.answer(to: request("GET /db/", "X: \(long)")).status == 431)
        #expect(try site.answer(to: request("GET /db/?a=\(long)")).status == 431)
    }

    @Test func versionWithoutPersistenceClosesBehindTheAnswer() throws {
        let site = try Self.echo()
        let client = try site.client()
        try client.send("GET /db/ HTTP/1.0\r\n\r\n")
        let bytes = String(decoding: try client.bytesToEnd(), as: UTF8.self)
        #expect(bytes.contains("Connection: close\r\n"))
        #expect(bytes.hasSuffix("\r\n\r\ndb"))

        let second = try site.client()
        for _ in 0..<2 {
            try second.send("GET /db/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            #expect(try second.answer().headers["connection"] == "keep-alive")
        }
    }

    @Test func requestWithConnectionCloseClosesAfterTheAnswer() throws {
        let site = try Self.echo()
        let client = try site.client()
        try client.send(request("GET /db/", "Connection: close"))
        #expect(try client.answer().headers["connection"] == "close")
        #expect(client.isClosed())
    }

    @Test func connectionWithIncompleteHeadTimesOut() throws {
        let site = try Site(settings: Self.impatient()) { [] }
        let silent = try site.client()
        let half = try site.client()
        try half.send("GET /db/ HTTP/1.1\r\nHo")
        #expect(silent.isClosed())
        #expect(half.isClosed())
    }

    @Test func idleConnectionIsClosedInTime() throws {
        let site = try Site(settings: Self.impatient()) {
            [GatewayRoute([.get], "/{db}/") { $0.answer(text: "x") }]
        }
        let client = try site.client()
        try client.send(request("GET /db/"))
        #expect(try client.answer().text == "x")
        #expect(client.isClosed())
    }

    @Test func idleConnectionIsClosedInTimeAfterItWasFull() throws {
        let site = try Site(settings: Self.impatient()) {
            [
                GatewayRoute([.get], "/{db}/") {
                    $0.answer(text: String(repeating: "x", count: 8 << 20))
                }
            ]
        }
        let client = try site.client(receiveBytes: 16_384)
        try client.send(request("GET /db/"))
        #expect(try client.answer().body.count == 8 << 20)
        #expect(client.isClosed())
    }

    @Test func bodyThatStallsEndsTheExchange() async throws {
        let held = Held()
        let site = try Site(settings: Self.impatient()) {
            [
                GatewayRoute([.put], "/{db}/{doc}") { exchange in
                    exchange.readBody(atMost: 1 << 20) { body in
                        if case .failure(let refusal) = body { held.note(refusal.reason) }
                        exchange.answer(201)
                    }
                }
            ]
        }
        let client = try site.client()
        try client.send("PUT /db/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf")
        #expect(client.isClosed())
        try await waitUntil("the body fails") { held.texts.count == 1 }
    }

    @Test func handlerMayTakeLongerThanEveryTimeout() async throws {
        let held = Held()
        let site = try Site(settings: Self.impatient()) {
            [GatewayRoute([.get], "/{db}/") { held.keep($0) }]
        }
        let client = try site.client()
        try client.send(request("GET /db/"))
        try await waitUntil("the request arrives") { held.count > 0 }
        try await Task.sleep(for: .milliseconds(3_500))
        site.lane.post { held[0].answer(text: "late") }
        #expect(try client.answer().text == "late")
    }

    @Test func requestThatEndsInItsMiddleIsRefused() throws {
        let site = try Self.echo()
        for text in [
            "GET /db/ HTTP/1.1\r\nHo",
            "PUT /db/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf",
        ] {
            let client = try site.client()
            try client.send(text)
            client.endSending()
            #expect(try client.answer().status == 400)
            #expect(client.isClosed())
        }
    }

    @Test func clientThatShutsDownItsSideGetsItsAnswers() throws {
        let site = try Self.echo()
        let client = try site.client()
        try client.send(request("GET /a/") + request("GET /b/"))
        client.endSending()
        #expect(try client.answer().text == "a")
        #expect(try client.answer().text == "b")
        #expect(client.isClosed())
    }

    @Test func closedClientEndsItsExchange() async throws {
        let held = Held()
        let site = try Site {
            [
                GatewayRoute([.get], "/{db}/_changes") { exchange in
                    held.keep(exchange)
                    exchange.whenClosed { held.note("closed") }
                    exchange.begin(200, ["Content-Type": "application/json"])
                    exchange.flush()
                }
            ]
        }
        try site.lane.run { [server = site.server] in
            server.didAnswer = { held.note("ended \($0.number)") }
        }
        do {
            let client = try site.client()
            try client.send(request("GET /db/_changes"))
            #expect(try client.head().status == 200)
        }
        try await waitUntil("the exchange ends") { held.texts.count == 2 }
        #expect(held.texts == ["closed", "ended 1"])
        try await waitUntil("the connection is gone") { try! site.connectionCount == 0 }
        // An answer that goes on writing does nothing.
        try site.lane.run {
            held[0].write(ByteView.empty)
            held[0].flush()
            held[0].end()
        }
        #expect(try site.lane.run { held[0].isClosed })
    }

    @Test func furtherClientsWaitUntilOneOfTheMostConnectionsIsClosed() async throws {
        var settings = GatewaySettings()
        settings.connectionsMax = 2
        let site = try Site(settings: settings) {
            [GatewayRoute([.get], "/{db}/") { $0.answer(text: "x") }]
        }
        var clients: [RawClient] = []
        for _ in 0..<2 {
            let client = try site.client()
            try client.send(request("GET /db/"))
            #expect(try client.answer().text == "x")
            clients.append(client)
        }
        // The system call that accepts is made before the bound is reached.
        let extra = try (0..<2).map { _ in try site.client() }
        for client in extra { try client.send(request("GET /db/")) }
        try await Task.sleep(for: .milliseconds(200))
        #expect(try site.connectionCount <= 3)
        clients = []
        for client in extra { #expect(try client.answer().text == "x") }
    }

    @Test func stopClosesConnections() throws {
        let site = try Self.echo()
        let client = try site.client()
        try client.send(request("GET /db/"))
        #expect(try client.answer().text == "db")
        site.server.stop()
        #expect(client.isClosed())
        #expect(throws: RawClient.Failure.self) { _ = try site.client() }
    }

    @Test func portInUseIsAnErrorForTheOperator() throws {
        let site = try Self.echo()
        let listener = GatewayListener(.publicPort, host: "127.0.0.1", port: site.port)
        #expect {
            try site.server.listen(listener)
        } throws: { error in
            "\(error)" == "127.0.0.1:\(site.port) is in use by another process; set another port"
        }
    }
}
