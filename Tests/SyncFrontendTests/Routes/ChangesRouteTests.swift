import SyncFrontend
import Testing

/// Feeds of clients that do not read, or go.
@Suite struct ChangesRouteTests {
    @Test func feedEndsWithAClientThatDidNotRead() async throws {
        try await GatewayWorld.administered { world in
            let text = String(repeating: "x", count: 400_000)
            for number in 0..<40 { _ = await world.put("d\(number)", "{\"t\":\"\(text)\"}") }
            var client: RawClient? = try RawClient(
                port: world.administrationPort,
                receiveBytes: 4_096
            )
            let target = "/db/_changes?feed=continuous&include_docs=true"
            try client?.send("GET \(target) HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            let isFollowed = try await world.eventually { await world.feedCount() == 1 }
            #expect(isFollowed)
            // The answer fills the buffers of the kernel.
            try await Task.sleep(for: .milliseconds(500))
            client = nil
            let isGone = try await world.eventually { await world.feedCount() == 0 }
            #expect(isGone && client == nil)
        }
    }

    @Test func feedWithoutRowsEndsAtTheTokenOfTheRequest() async throws {
        try await GatewayWorld.administered { world in
            _ = await world.put("d", "{}")
            let query = "filter=sync_gateway/bychannel&channels=none"
            for since in ["3::7", "9", "7:2", ""] {
                let answer = try world.administer("GET /db/_changes?since=\(since)&\(query)")
                let last = since.isEmpty ? "0" : since
                #expect(answer.text == "{\"results\":[\r\n],\n\"last_seq\":\"\(last)\"}\n")
            }
        }
    }

    /// Neither the grant nor the low sequence of a token counts, nor does `active_only`.
    @Test func feedOfNamedDocumentsContinuesAfterTheSequenceAlone() async throws {
        try await GatewayWorld.administered { world in
            let revision = await world.put("d", "{}")
            _ = await world.put("d", "{\"_rev\":\"\(revision)\",\"_deleted\":true}")
            let query = "active_only=true&filter=_doc_ids&doc_ids=d"
            let newest = await world.updateSequence()
            for since in ["\(newest + 9):\(newest - 1)", "1::\(newest - 1)", "0"] {
                let answer = try world.administer("GET /db/_changes?since=\(since)&\(query)")
                #expect(answer.text.contains("\"seq\":\(newest),\"id\":\"d\",\"deleted\":true"))
            }
            for since in ["1:\(newest)", "1::\(newest)"] {
                let answer = try world.administer("GET /db/_changes?since=\(since)&\(query)")
                #expect(answer.text == "{\"results\":[\r\n],\n\"last_seq\":0}\n")
            }
        }
    }

    @Test func feedOfNamedDocumentsEndsWithATextInTheDialectOf3() async throws {
        try await GatewayWorld.administered(GatewayWorld.file("3")) { world in
            _ = await world.put("d", "{}")
            let newest = await world.updateSequence()
            let query = "filter=_doc_ids&doc_ids=d"
            let some = try world.administer("GET /db/_changes?\(query)")
            #expect(some.text.hasSuffix("],\n\"last_seq\":\"\(newest)\"}\n"))
            let none = try world.administer("GET /db/_changes?since=\(newest)&\(query)")
            #expect(none.text == "{\"results\":[\r\n],\n\"last_seq\":\"\(newest)\"}\n")
        }
    }

    @Test func longPollAnswersWithTheNextChange() async throws {
        try await GatewayWorld.administered { world in
            let client = try RawClient(port: world.administrationPort)
            let target = "/db/_changes?feed=longpoll&since=2"
            try client.send("GET \(target) HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            let isFollowed = try await world.eventually { await world.feedCount() == 1 }
            #expect(isFollowed)
            let revision = await world.put("d", "{}")
            let row = "{\"seq\":3,\"id\":\"d\",\"changes\":[{\"rev\":\"\(revision)\"}]}"
            let answer = try client.answer()
            #expect(answer.text == "{\"results\":[\r\n\(row)\n],\n\"last_seq\":\"3\"}\n")
        }
    }
}
