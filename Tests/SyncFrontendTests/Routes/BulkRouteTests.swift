import Foundation
import SyncFrontend
import Testing

@Suite struct BulkRouteTests {
    private static let json = ["Accept: application/json"]

    // MARK: _bulk_docs

    @Test func rowsOfWritesAreInTheirOrder() async throws {
        try await GatewayWorld.with { world in
            try world.put("a")
            let answer = try world.ask(
                "POST /db/_bulk_docs",
                body: #"""
                    {"docs":[{"_id":"a","n":2},{"_id":"_local/c","x":1},{"_id":"b","n":1},{"n":5},
                    {"_id":"_x"},{"_id":"d","_foo":1},{"_rev":"1-a"},{"_id":"b","n":2}]}
                    """#
            )
            #expect(answer.status == 201)
            let rows = try #require(answer.json as? [[String: Any]])
            #expect(rows.count == 8)
            let id = rows[2]["id"] as? String ?? ""
            let revisions = rows.compactMap { $0["rev"] as? String }
            #expect(id.count == 32 && revisions.count == 3)
            let text = answer.text.replacing(id, with: "NEW").replacing(revisions[0], with: "R1")
                .replacing(revisions[1], with: "R2")
            #expect(
                text == #"[{"error":"conflict","id":"a","reason":"Document exists","status":409},"#
                    + #"{"id":"b","rev":"R1"},{"id":"NEW","rev":"R2"},"#
                    + #"{"error":"bad_request","id":"_x","reason":"Invalid doc ID","status":400},"#
                    + #"{"error":"bad_request","id":"d","reason":"user defined top level properties "#
                    + #"beginning with '_' are not allowed in document body","status":400},"#
                    + #"{"error":"not_found","reason":"No previous revision to replace","status":404},"#
                    + #"{"error":"conflict","id":"b","reason":"Document exists","status":409},"#
                    + #"{"id":"_local/c","rev":"0-1"}]"#
            )
        }
    }

    @Test func newEditsFlagBeforeOrAfterDocumentsIsRespected() async throws {
        try await GatewayWorld.with { world in
            let documents = (0..<250).map { number in
                #"{"_id":"a\#(number)","channels":["public"],"_revisions":{"start":2,"ids":["b","a"]}}"#
            }.joined(separator: ",")
            for body in [
                #"{"new_edits":false,"docs":[\#(documents)]}"#,
                #"{"docs":[\#(documents)],"new_edits":false}"#,
            ] {
                let answer = try world.ask("POST /db/_bulk_docs", body: body)
                let rows = try #require(answer.json as? [[String: String]])
                #expect(rows.count == 250)
                #expect(rows.allSatisfy { $0["rev"] == "2-b" })
                #expect(rows.last?["id"] == "a249")
            }
            #expect(try world.ask("GET /db/a249").object["_rev"] as? String == "2-b")
            let without = try world.ask(
                "POST /db/_bulk_docs",
                body: #"{"new_edits":false,"docs":[{"_id":"x"}]}"#
            )
            #expect(
                without.text
                    == #"[{"error":"bad_request","id":"x","reason":"Bad _revisions","status":400}]"#
            )
            let first = try world.ask(
                "POST /db/_bulk_docs",
                body: #"{"new_edits":false,"docs":[{"_id":"x","_rev":"1-c"}]}"#
            )
            #expect(first.text == #"[{"id":"x","rev":"1-c"}]"#)
        }
    }

    @Test func documentsWaitForTheFlagWithinTheBoundOfBodies() async throws {
        var settings = GatewaySettings()
        settings.bodyBytesMax = 300 << 10
        try await GatewayWorld.with(settings: settings) { world in
            let filler = String(repeating: "x", count: 2_000)
            let documents = (0..<400).map { number in
                #"{"_id":"a\#(number)","channels":["public"],"filler":"\#(filler)"}"#
            }.joined(separator: ",")
            let late = try world.ask("POST /db/_bulk_docs", body: #"{"docs":[\#(documents)]}"#)
            #expect(late.status == 503)
            let early = try world.ask(
                "POST /db/_bulk_docs",
                body: #"{"new_edits":true,"docs":[\#(documents)]}"#
            )
            #expect(early.status == 201)
            #expect((early.json as? [[String: Any]])?.count == 400)
        }
    }

    @Test func invalidRequestsAreRefusedAsAWhole() async throws {
        try await GatewayWorld.with { world in
            let cases = [
                ("_bulk_docs", "{}", 400, "missing 'docs' property"),
                ("_bulk_docs", "{\"docs\":[", 400, "Bad JSON"),
                ("_bulk_docs", "{\"docs\":[{x}]}", 400, "Bad JSON"),
                ("_bulk_get", "{}", 400, "missing 'docs' property"),
                ("_bulk_get", "[", 400, "Bad JSON"), ("_revs_diff", "[1]", 400, "Bad JSON"),
                ("_all_docs", "{}", 400, "Bad/missing keys"),
            ]
            for (name, body, status, reason) in cases {
                let answer = try world.ask("POST /db/\(name)", body: body)
                #expect(answer.status == status && answer.reason == reason, "\(name) \(body)")
                let plain = ["Content-Type: text/plain"]
                let type = try world.ask("POST /db/\(name)", headers: plain, body: "{}")
                #expect(type.status == 415, "\(name)")
            }
        }
    }

    // MARK: _bulk_get

    @Test func documentsAndErrorsAreParts() async throws {
        try await GatewayWorld.with { world in
            try world.replicate("a", ["2-b", "1-a"])
            try world.put("c", #""_attachments":{"x":{"data":"eA=="}}"#)
            let answer = try world.ask(
                "POST /db/_bulk_get?revs=true&attachments=true",
                body: #"{"docs":[{"id":"a"},{"id":"no","rev":"1-x"},{"id":"c"},{"rev":"1-x"}]}"#
            )
            #expect(answer.status == 200)
            let parts = answer.framing.components(separatedBy: "--B1")
            #expect(parts.count == 6)
            #expect(
                parts[1] == "\r\nContent-Type: application/json\r\n\r\n"
                    + #"{"_id":"a","_rev":"2-b","_revisions":{"ids":["b","a"],"start":2},"#
                    + #""channels":["public"],"n":1}"# + "\r\n"
            )
            #expect(
                parts[2] == "\r\nContent-Type: application/json; error=\"true\"\r\n\r\n"
                    + #"{"error":"not_found","id":"no","reason":"missing","rev":"1-x","status":404}"#
                    + "\r\n"
            )
            #expect(parts[3].contains("multipart/related; boundary=\"B2\"\r\nX-Doc-Id: c\r\n"))
            #expect(parts[3].contains(#""data":"eA==""#) && parts[3].hasSuffix("\r\n--B2--\r\n"))
            #expect(parts[4].contains(#""reason":"Invalid doc/rev ID in _bulk_get""#))
            #expect(parts[5] == "--\r\n")
            let couchbaseLite = try world.ask(
                "POST /db/_bulk_get",
                headers: ["Accept: multipart/related"],
                body: #"{"docs":[{"id":"a"}]}"#
            )
            #expect(couchbaseLite.headers["content-type"]?.hasPrefix("multipart/mixed") == true)
            let text = try world.ask(
                "POST /db/_bulk_get",
                headers: ["Accept: text/html"],
                body: #"{"docs":[]}"#
            )
            #expect(text.status == 406 && text.reason == "Response is multipart")
        }
    }

    @Test func jsonHasTheFormOfCouchDB() async throws {
        try await GatewayWorld.with { world in
            try world.replicate("a", ["2-b", "1-a"])
            let answer = try world.ask(
                "POST /db/_bulk_get?latest=true",
                headers: Self.json,
                body: #"{"docs":[{"id":"a","rev":"1-a"},{"id":"no","rev":"1-x"}]}"#
            )
            #expect(
                answer.text == #"{"results":[{"id":"a","docs":[{"ok":{"_id":"a","_rev":"2-b","#
                    + #""channels":["public"],"n":1}}]},{"id":"no","docs":[{"error":{"error":"not_found","#
                    + #""id":"no","reason":"missing","rev":"1-x","status":404}}]}]}"#
            )
        }
    }

    // MARK: _revs_diff

    @Test func missingRevisionsAreAskedFor() async throws {
        try await GatewayWorld.with { world in
            try world.replicate("a", ["1-a"])
            let answer = try world.ask(
                "POST /db/_revs_diff",
                body: #"{"a":["1-z","2-y"],"b":["1-a"],"_design/d":["1-a"]}"#
            )
            #expect(answer.status == 200)
            #expect(answer.headers["content-type"] == "text/plain; charset=utf-8")
            #expect(
                answer.text == """
                    {"a":{"missing":["1-z","2-y"],"possible_ancestors":["1-a"]}
                    ,
                    "b":{"missing":["1-a"]}
                    }
                    """
            )
        }
    }

    // MARK: _all_docs

    @Test func rangesAndKeysAreListed() async throws {
        try await GatewayWorld.with { world in
            for id in ["b", "a", "c", "d"] { try world.replicate(id, ["1-\(id)"]) }
            #expect(try world.ask("PUT /db/j", body: #"{"channels":["jane"]}"#).status == 201)
            func ids(_ query: String) throws -> [String] {
                let answer = try world.ask("GET /db/_all_docs?\(query)", .joe)
                return (answer.object["rows"] as? [[String: Any]] ?? []).compactMap {
                    $0["id"] as? String
                }
            }
            let all = try world.ask("GET /db/_all_docs", .joe)
            let rows = ["a", "b", "c", "d"].map {
                #"{"key":"\#($0)","id":"\#($0)","value":{"rev":"1-\#($0)"}}"# + "\n"
            }
            #expect(
                all.text == "{\"rows\":[\n" + rows.joined(separator: ",")
                    + "],\n\"total_rows\":4,\"update_seq\":8}"
            )
            #expect(try ids("startkey=%22b%22&endkey=%22c%22") == ["b", "c"])
            #expect(try ids("startkey=b&inclusive_end=false&endkey=d") == ["b", "c"])
            #expect(try ids("descending=true") == ["d", "c", "b", "a"])
            #expect(try ids("descending=true&startkey=c&limit=2") == ["c", "b"])
            #expect(try ids("skip=1&limit=2") == ["b", "c"])
            #expect(try ids("key=%22c%22") == ["c"])
            #expect(try ids("limit=0").count == 4)
            let keys = try world.ask("POST /db/_all_docs", .joe, body: #"{"keys":["c","j","x"]}"#)
            #expect(
                keys.text == """
                    {"rows":[
                    {"key":"c","id":"c","value":{"rev":"1-c"}}
                    ,{"key":"j","error":"forbidden","status":403}
                    ,{"key":"x","error":"not_found","status":404}
                    ],
                    "total_rows":3,"update_seq":8}
                    """
            )
        }
    }

    @Test func listHasDocumentsChannelsAndSequences() async throws {
        try await GatewayWorld.with { world in
            try world.put("a", #""_attachments":{"x":{"data":"eA=="}}"#)
            let answer = try world.ask(
                "GET /db/_all_docs?include_docs=true&channels=true&update_seq=true&attachments=true&revs=true"
            )
            let row = try #require((answer.object["rows"] as? [[String: Any]])?.first)
            #expect((row["value"] as? [String: Any])?["channels"] as? [String] == ["public"])
            #expect(row["update_seq"] as? Int == 4)
            #expect(answer.text.contains(#""data":"eA==""#))
            #expect(answer.text.contains(#""_revisions":{"ids":["#))
        }
    }

    @Test func manyDocumentsAreListedInPages() async throws {
        try await GatewayWorld.with { world in
            let documents = (0..<333).map { #"{"_id":"a\#(1000 + $0)","channels":["public"]}"# }
            let body = #"{"docs":[\#(documents.joined(separator: ","))]}"#
            #expect(try world.ask("POST /db/_bulk_docs", body: body).status == 201)
            let up = try world.ask("GET /db/_all_docs").object["rows"] as? [[String: Any]]
            let ids = (up ?? []).compactMap { $0["id"] as? String }
            #expect(ids == (0..<333).map { "a\(1000 + $0)" })
            let down = try world.ask("GET /db/_all_docs?descending=true")
            let reversed = (down.object["rows"] as? [[String: Any]] ?? [])
                .compactMap { $0["id"] as? String }
            #expect(reversed == ids.reversed())
        }
    }

    @Test func administratorSeesGrantsOfDocuments() async throws {
        let text = GatewayWorld.configuration.replacing(
            #""server": "walrus:","#,
            with:
                #""server": "walrus:", "sync": "function(doc) { access('jane', ['x']); channel('x'); }","#
        )
        try await GatewayWorld.with(text) { world in
            #expect(try world.ask("PUT /db/a", .administrator, body: "{}").status == 201)
            let answer = try world.ask("GET /db/_all_docs?access=true", .administrator)
            #expect(answer.text.contains(#","access":{"jane":["x"]}}"#))
            #expect(try !world.ask("GET /db/_all_docs?access=true").text.contains("access"))
        }
    }
}
