import Foundation
import Testing

@Suite struct DocumentRouteTests {
    // MARK: Writes

    @Test func writtenDocumentIsReadWithItsTag() async throws {
        try await GatewayWorld.with { world in
            let answer = try world.ask("PUT /db/a%2Fb", body: #"{"n":1,"channels":["public"]}"#)
            let revision = answer.revision
            #expect(answer.status == 201 && answer.phrase == "Created")
            #expect(answer.text == #"{"id":"a/b","ok":true,"rev":"\#(revision)"}"#)
            #expect(answer.headers["etag"] == "\"\(revision)\"")
            #expect(answer.headers["content-type"] == "application/json")
            let read = try world.ask("GET /db/a%2Fb", .joe)
            #expect(read.status == 200)
            #expect(
                read.text
                    == #"{"_id":"a/b","_rev":"\#(revision)","channels":["public"],"n":1}"#
            )
            #expect(read.headers["etag"] == "\"\(revision)\"")
            let head = try world.ask("HEAD /db/a%2Fb")
            #expect(head.status == 200 && head.body.isEmpty)
            #expect(head.headers["content-type"] == "application/json")
        }
    }

    @Test func writeNeedsTheRevisionThatItReplaces() async throws {
        try await GatewayWorld.with { world in
            let first = try world.put("a")
            let blind = try world.ask("PUT /db/a", body: #"{"n":2}"#)
            #expect(blind.status == 409)
            #expect(blind.text == #"{"error":"conflict","reason":"Document exists"}"#)
            let second = try world.put("a", #""n":2"#, query: "?rev=\(first)")
            let stale = try world.ask("PUT /db/a", body: #"{"_rev":"\#(first)","n":3}"#)
            #expect(stale.text == #"{"error":"conflict","reason":"Document revision conflict"}"#)
            let matched = try world.ask(
                "PUT /db/a",
                headers: ["If-Match: \"\(second)\""],
                body: #"{"n":4,"channels":["public"]}"#
            )
            #expect(matched.status == 201)
            let gone = try world.ask("DELETE /db/a")
            #expect(gone.status == 409 && gone.reason == "Document exists")
            let deleted = try world.ask("DELETE /db/a?rev=\(matched.revision)")
            #expect(deleted.status == 200)
            #expect(deleted.text == #"{"id":"a","ok":true,"rev":"\#(deleted.revision)"}"#)
            #expect(deleted.headers["etag"] == nil)
            let missing = try world.ask("GET /db/a", .administrator)
            #expect(missing.status == 404 && missing.reason == "deleted")
        }
    }

    @Test func invalidBodiesAreRefused() async throws {
        try await GatewayWorld.with { world in
            let cases: [(body: String, status: Int, reason: String)] = [
                ("not json", 400, "Bad JSON"), ("", 400, "Bad JSON"),
                ("null", 400, "Document body is empty"),
                (
                    #"{"_foo":1}"#, 400,
                    "user defined top level properties beginning with '_' are not allowed in document body"
                ),
                (#"{"_rev":"x"}"#, 400, "Invalid revision ID"),
                (#"{"_exp":"x"}"#, 400, "Invalid expiry"),
            ]
            for (body, status, reason) in cases {
                let answer = try world.ask("PUT /db/a", body: body)
                #expect(answer.status == status && answer.reason == reason, "\(body)")
            }
            let type = try world.ask("PUT /db/a", headers: ["Content-Type: text/plain"], body: "{}")
            #expect(type.status == 415 && type.reason == "Invalid content type text/plain")
            let history = try world.ask("PUT /db/a?new_edits=false", body: "{}")
            #expect(history.status == 400 && history.reason == "Bad _revisions")
            let long = String(repeating: "a", count: 251)
            let id = try world.ask("PUT /db/\(long)", body: "{}")
            #expect(id.status == 400 && id.reason == "Invalid doc ID")
            #expect(try world.ask("GET /db/a").status == 404)
        }
    }

    @Test func postedDocumentGetsAnID() async throws {
        try await GatewayWorld.with { world in
            let answer = try world.ask("POST /db/", body: #"{"n":1}"#)
            let id = answer.object["id"] as? String ?? ""
            #expect(answer.status == 200 && id.count == 32)
            #expect(answer.headers["location"] == id)
            #expect(answer.headers["etag"] == "\"\(answer.revision)\"")
            let named = try world.ask("POST /db/", body: #"{"_id":"x y","n":1}"#)
            #expect(named.object["id"] as? String == "x y")
            #expect(named.headers["location"] == "x%20y")
            let again = try world.ask("POST /db/", body: #"{"_rev":"1-a"}"#)
            #expect(again.status == 404 && again.reason == "No previous revision to replace")
        }
    }

    @Test func dialectOf3RefusesContradictoryNames() async throws {
        let text = GatewayWorld.configuration.replacing(
            #""log": ["REST"]"#,
            with: #""compatibility": "3""#
        )
        try await GatewayWorld.with(text) { world in
            let id = try world.ask("PUT /db/a", body: #"{"_id":"b"}"#)
            #expect(id.status == 400)
            #expect(
                id.reason
                    == "The document ID provided in the body does not match the document ID in the path"
            )
            let first = try world.put("a")
            let revision = try world.ask("PUT /db/a?rev=\(first)", body: #"{"_rev":"2-x"}"#)
            #expect(
                revision.status == 400 && revision.reason == "Revision IDs provided do not match"
            )
        }
    }

    // MARK: Reads

    @Test func documentOutsideOfTheUsersChannelsIsForbidden() async throws {
        try await GatewayWorld.with { world in
            let answer = try world.ask("PUT /db/a", body: #"{"channels":["jane"],"n":1}"#)
            let refused = try world.ask("GET /db/a", .joe)
            #expect(refused.status == 403)
            #expect(refused.text == #"{"error":"Forbidden","reason":"forbidden"}"#)
            let redacted = try world.ask("GET /db/a?rev=\(answer.revision)", .joe)
            #expect(
                redacted.text == #"{"_id":"a","_removed":true,"_rev":"\#(answer.revision)"}"#
            )
            #expect(try world.ask("GET /db/a", .none).status == 401)
            let missing = try world.ask("GET /db/nope")
            #expect(missing.text == #"{"error":"not_found","reason":"missing"}"#)
        }
    }

    @Test func historyEndsAtKnownRevisions() async throws {
        try await GatewayWorld.with { world in
            try world.replicate("a", ["3-c", "2-b", "1-a"])
            let all = try world.ask("GET /db/a?revs=true")
            #expect(all.text.contains(#""_revisions":{"ids":["c","b","a"],"start":3}"#))
            let known = try world.ask("GET /db/a?revs=true&revs_from=%5B%222-b%22%5D")
            #expect(known.text.contains(#""_revisions":{"ids":["c","b"],"start":3}"#))
            let limited = try world.ask("GET /db/a?revs=true&revs_limit=1")
            #expect(limited.text.contains(#""_revisions":{"ids":["c"],"start":3}"#))
            let bad = try world.ask("GET /db/a?atts_since=x")
            #expect(bad.reason == "atts_since URL param is not a JSON string array")
        }
    }

    @Test func openRevisionsAreAList() async throws {
        try await GatewayWorld.with { world in
            try world.replicate("a", ["1-a"])
            try world.replicate("a", ["1-b"], #""n":2"#)
            let json = ["Accept: application/json"]
            let all = try world.ask("GET /db/a?open_revs=all", headers: json)
            #expect(
                all.text == """
                    [
                    {"ok":{"_id":"a","_rev":"1-b","channels":["public"],"n":2}}
                    ,{"ok":{"_id":"a","_rev":"1-a","channels":["public"],"n":1}}
                    ]
                    """
            )
            let listed = try world.ask(
                "GET /db/a?open_revs=%5B%221-a%22,%229-x%22%5D",
                headers: json
            )
            #expect(
                listed.text == """
                    [
                    {"ok":{"_id":"a","_rev":"1-a","channels":["public"],"n":1}}
                    ,{"missing":"9-x"}
                    ]
                    """
            )
            let parts = try world.ask("GET /db/a?open_revs=%5B%221-a%22,%229-x%22%5D")
            #expect(
                parts.headers["content-type"]?.hasPrefix("multipart/mixed; boundary=\"") == true
            )
            #expect(
                parts.framing == """
                    --B1\r
                    Content-Type: application/json\r
                    \r
                    {"_id":"a","_rev":"1-a","channels":["public"],"n":1}\r
                    --B1\r
                    Content-Type: application/json; error="true"\r
                    \r
                    {"missing":"9-x"}\r
                    --B1--\r

                    """
            )
            let couch = try world.ask(
                "GET /db/a?open_revs=all",
                headers: ["User-Agent: CouchDB/1.2"]
            )
            #expect(couch.text.hasSuffix("--"))
            #expect(try world.ask("GET /db/a?open_revs=x").reason == "bad open_revs")
            #expect(try world.ask("GET /db/b?open_revs=all").status == 404)
        }
    }

    @Test func openRevisionsIncludeAttachmentsKnownToTheClient() async throws {
        try await GatewayWorld.with { world in
            let revision = try world.put("a", #""_attachments":{"t":{"data":"aGVsbG8="}}"#)
            let known = "%5B%22\(revision)%22%5D"
            let answer = try world.ask(
                "GET /db/a?open_revs=\(known)&atts_since=\(known)&attachments=true",
                headers: ["Accept: application/json"]
            )
            #expect(answer.text.contains(#""data":"aGVsbG8=""#), "\(answer.text)")
        }
    }

    @Test func optionsOfCouchDBAreAnswered() async throws {
        try await GatewayWorld.with { world in
            try world.replicate("a", ["2-b", "1-a"])
            try world.replicate("a", ["3-d", "2-c", "1-a"])
            try world.replicate("a", ["3-x", "2-y", "1-a"], #""_deleted":true"#)
            let meta = try world.ask("GET /db/a?meta=true&local_seq=true")
            #expect(
                meta.text == #"{"_conflicts":["2-b"],"_deleted_conflicts":["3-x"],"_id":"a","#
                    + #""_local_seq":6,"_rev":"3-d","_revs_info":[{"rev":"3-d","status":"available"},"#
                    + #"{"rev":"2-c","status":"missing"},{"rev":"1-a","status":"missing"}],"#
                    + #""channels":["public"],"n":1}"#
            )
            let latest = try world.ask("GET /db/a?rev=2-c&latest=true")
            #expect(latest.revision.isEmpty && latest.object["_rev"] as? String == "3-d")
            let leaves = try world.ask(
                "GET /db/a?open_revs=%5B%222-c%22,%222-b%22%5D&latest=true",
                headers: ["Accept: application/json"]
            )
            #expect(leaves.text.contains("3-d") && leaves.text.contains("2-b"))
        }
    }

    @Test func expiryIsShownIfItIsAskedFor() async throws {
        try await GatewayWorld.with { world in
            try world.put("a", #""_exp":4102444800"#)
            #expect(try world.ask("GET /db/a").object["_exp"] == nil)
            let shown = try world.ask("GET /db/a?show_exp=true").object["_exp"] as? String
            #expect(shown?.hasPrefix("2100-01-01T00:00:00") == true)
        }
    }
}
