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
