import SyncFrontend
import Testing

@Suite struct InspectionRouteTests {
    private static let branch =
        "{\"n\":2,\"_revisions\":{\"start\":1,\"ids\":[\"abc\"]}}"

    @Test func rawShowsMetadataAndBody() async throws {
        try await GatewayWorld.administered { world in
            let revision = await world.put(
                "d",
                "{\"channels\":[\"a\"],\"n\":1,\"_attachments\":{\"t\":{\"data\":\"aGVsbG8=\"}}}"
            )
            let answer = try world.administer("GET /db/_raw/d")
            #expect(answer.status == 200)
            #expect(answer.headers["content-type"] == "application/json")
            #expect(
                answer.text.hasPrefix(
                    "{\"_attachments\":{\"t\":{\"digest\":\"sha1-qvTGHdzF6KLavt4PO0gs2a6pQ00=\","
                        + "\"length\":5,\"revpos\":1,\"stub\":true}},\"_sync\":{\"rev\":\"\(revision)\","
                        + "\"sequence\":3,"
                )
            )
            #expect(answer.text.hasSuffix(",\"channels\":[\"a\"],\"n\":1}"))
            let bare = try world.administer("GET /db/_raw/d?include_doc=false")
            #expect(Array(bare.object.keys) == ["_sync"])
            let missing = try world.administer("GET /db/_raw/none")
            #expect(missing.status == 404 && missing.reason == "missing")
        }
    }

    @Test func revisionTreeIsGraph() async throws {
        try await GatewayWorld.administered { world in
            let first = await world.put("d", "{\"n\":1}")
            _ = await world.put("d", Self.branch, isEdit: false)
            let last = await world.put("d", "{\"_rev\":\"\(first)\",\"_deleted\":true}")
            let answer = try world.administer("GET /db/_revtree/d")
            #expect(answer.headers["content-type"] == "text/plain; charset=UTF-8")
            #expect(
                answer.text
                    == "digraph graphname{\"\" -> \"1-abc\"; \"\(last)\" [fontcolor=red];"
                    + "\"\(first)\" -> \"\(last)\" [label=\"Tombstone\", fontcolor=red];}"
            )
            let missing = try world.administer("GET /db/_revtree/none")
            #expect(missing.status == 404 && missing.reason == "missing")
        }
    }

    @Test func dumpOfChannelIsTableOfItsRows() async throws {
        try await GatewayWorld.administered { world in
            let first = await world.put("a&b", "{\"channels\":[\"c\"]}")
            let second = await world.put("b", "{\"channels\":[\"c\"]}")
            let answer = try world.administer("GET /db/_dumpchannel/c")
            #expect(answer.headers["content-type"] == "text/html; charset=\"UTF-8\"")
            #expect(
                answer.text == """
                    <!DOCTYPE html><html><head><title>/db: “c” Channel</title></head><body>
                    \t\t<h1>/db: “c” Channel</h1><code>
                    \t\t<p>Since = 2</p>
                    \t\t<table border=1>
                    \t\t\t<tr><th>Seq</th><th>Doc</th><th>Rev</th><th>Flags</th></tr>
                    \t<tr><td>3</td><td>a&amp;b</td><td>\(first)</td><td>00000000</td></tr>
                    \t<tr><td>4</td><td>b</td><td>\(second)</td><td>00000000</td></tr>
                    </table>
                    </code></html></body>
                    """
            )
            let since = try world.administer("GET /db/_dumpchannel/c?since=3")
            #expect(!since.text.contains("a&amp;b") && since.text.contains("<td>b</td>"))
            for name in ["none", "a,b"] {
                let missing = try world.administer("GET /db/_dumpchannel/\(name)")
                #expect(missing.status == 404 && missing.reason == "no such channel")
            }
        }
    }

    @Test func dumpOfManyRowsHasAll() async throws {
        try await GatewayWorld.administered { world in
            for number in 0..<450 { _ = await world.put("d\(number)", "{\"channels\":[\"c\"]}") }
            let answer = try world.administer("GET /db/_dumpchannel/c")
            #expect(answer.text.split(separator: "\n").count { $0.hasPrefix("\t<tr>") } == 450)
        }
    }

    @Test func purgeRemovesNamedDocuments() async throws {
        try await GatewayWorld.administered { world in
            for id in ["a", "b", "c"] { _ = await world.put(id, "{}") }
            let answer = try world.administer(
                "POST /db/_purge",
                body: "{\"a\":[\"*\"],\"none\":[\"*\"],\"b\":[\"1-x\"],\"c\":[\"*\"]}"
            )
            #expect(answer.text == "{\"purged\":{\r\n\"a\" : [\"*\"]\n,\"c\" : [\"*\"]\n}\n}\n")
            let cache = answer.headers["cache-control"]
            #expect(cache == "private, max-age=0, no-cache, no-store")
            let purged = try world.administer("GET /db/_raw/a")
            #expect(purged.status == 404)
            let kept = try world.administer("GET /db/_raw/b")
            #expect(kept.status == 200)
            for body in ["x", "[]", ""] {
                let refused = try world.administer("POST /db/_purge", body: body)
                #expect(refused.status == 400)
                #expect(refused.reason == "_purge document ID's must be passed as a JSON")
            }
        }
    }

    @Test func inspectionRoutesAreAbsentOnPublicPort() async throws {
        try await GatewayWorld.administered { world in
            for line in [
                "GET /db/_raw/d", "GET /db/_revtree/d", "GET /db/_dumpchannel/c", "POST /db/_purge",
            ] {
                let answer = try world.ask(line)
                #expect(answer.status == 404 && answer.reason == "unknown URL", "\(line)")
            }
        }
    }
}
