import Bytes
import Foundation
import HTTPFrontend
import Server
import Testing

/// Design documents and queries on a whole node.
@Suite(.serialized) struct ViewNodeTests {
    private static let design = """
        {"views": {"v": {"map": "function (doc, meta) { emit(doc.n, doc.n * 2); }",
        "reduce": "_sum"}, "m": {"map": "function (doc, meta) { emit(meta.id, null); }"}}}
        """

    private static let documents = (1...20).map { number in
        (id: "doc\(number)", json: "{\"n\":\(number)}")
    }

    @Test func documentsOfAViewAreQueriedAndReduced() async throws {
        try await ViewNode.with { node in
            try await node.write(Self.documents)
            #expect(try await node.put("d", Self.design).status == 201)

            let range = try await node.query("stale=false&reduce=false&startkey=3&endkey=4")
            #expect(range.status == 200, "\(range.text)")
            #expect(range.object["total_rows"] as? Int == 20)
            #expect(
                range.rows == [
                    #"{"id":"doc3","key":3,"value":6}"#, #"{"id":"doc4","key":4,"value":8}"#,
                ]
            )
            #expect(range.object["errors"] == nil, "\(range.text)")

            let keys = try await node.query("reduce=false", keys: #"{"keys":[7,2,7]}"#)
            #expect(keys.rows.count == 3, "\(keys.text)")
            #expect(keys.rows.first == #"{"id":"doc7","key":7,"value":14}"#)

            let sum = try await node.query("stale=false")
            #expect(sum.rows == [#"{"key":null,"value":420}"#], "\(sum.text)")
            let groups = try await node.query("group=true&limit=2&descending=true")
            #expect(
                groups.rows == [#"{"key":20,"value":40}"#, #"{"key":19,"value":38}"#],
                "\(groups.text)"
            )
        }
    }

    @Test func includedDocumentHasItsMetadataAndBody() async throws {
        try await ViewNode.with { node in
            try await node.write([("one", "{\"n\":1}"), ("raw", "no JSON")])
            _ = try await node.put("d", Self.design)
            let reply = try await node.ask(
                node.views.port,
                "GET /b/_design/d/_view/m?stale=false&include_docs=true"
            )
            let rows = try #require(reply.object["rows"] as? [[String: Any]], "\(reply.text)")
            let documents = rows.compactMap { $0["doc"] as? [String: Any] }
            try #require(documents.count == 2, "\(reply.text)")
            let meta = try #require(documents[0]["meta"] as? [String: Any])
            #expect(Set(meta.keys) == ["id", "rev", "flags", "expiration", "type"])
            #expect(meta["id"] as? String == "one")
            #expect(meta["type"] as? String == "json")
            #expect((documents[0]["json"] as? [String: Any])?["n"] as? Int == 1)
            #expect((documents[1]["meta"] as? [String: Any])?["type"] as? String == "base64")
            #expect(documents[1]["base64"] as? String == "bm8gSlNPTg==")
            #expect(documents[1]["json"] == nil)
        }
    }

    @Test func reduceFunctionOfTheAuthorIsExecuted() async throws {
        try await ViewNode.with { node in
            try await node.write(Self.documents)
            let put = try await node.put(
                "d",
                """
                {"views": {"v": {"map": "function (doc, meta) { emit(doc.n % 2, doc.n); }",
                "reduce": "function (k, v, r) { return Math.max.apply(null, v); }"}}}
                """
            )
            #expect(put.status == 201, "\(put.text)")
            let reply = try await node.query("stale=false&group=true")
            #expect(
                reply.rows == [#"{"key":0,"value":20}"#, #"{"key":1,"value":19}"#],
                "\(reply.text)"
            )
        }
    }

    @Test(arguments: [
        ("function (doc, meta) {\\n  emit(doc.a b);\\n}", "line 2"),
        ("1 + 1", "error"),
    ])
    func sourceThatIsNoFunctionIsRefused(source: String, cause: String) async throws {
        try await ViewNode.with { node in
            let reply = try await node.put("d", "{\"views\":{\"broken\":{\"map\":\"\(source)\"}}}")
            #expect(reply.status == 400)
            #expect(reply.object["error"] as? String == "invalid_design_document")
            let reason = try #require(reply.object["reason"] as? String)
            #expect(reason.contains("\"broken\"") && reason.contains(cause), "\(reason)")
            let missing = try await node.ask(node.views.port, "GET /b/_design/d")
            #expect(missing.status == 404)
        }
    }

    /// A function that would throw, or never end, is valid: its documents decide.
    @Test func sourceIsCheckedWithoutCallingItsFunction() async throws {
        try await ViewNode.with { node in
            let body = """
                {"views": {"throws": {"map": "function (doc) { throw 'x'; }"},
                "loops": {"map": "function (doc) { while (true) {} }"}}}
                """
            let reply = try await node.put("d", body)
            #expect(reply.status == 201, "\(reply.text)")
        }
    }

    /// A form of the admin port may be larger than a source.
    @Test func trialOfASourceThatNoViewCanHaveIsRefused() async throws {
        try await ViewNode.with { node in
            try await node.write([("one", "{\"n\":1}")])
            let map = "function(doc){emit(doc.n,null)}"
            let path = "POST /pools/default/buckets/b/controller/tryMap"
            for padding in [1 << 20, 0] {
                let source = map + String(repeating: "/", count: padding)
                let reply = try await node.ask(node.admin.port, path, form: "map=\(source)&id=one")
                #expect(reply.status == 200)
                let error = reply.object["error"] as? [String: Any]
                let reason = error?["reason"] as? String
                #expect((reason?.contains("at most 1048576") == true) == (padding > 0))
                #expect(reply.rows.count == (padding > 0 ? 0 : 1))
            }
        }
    }

    @Test func unknownViewIsNotFoundWithTheTextsOfTheOriginal() async throws {
        try await ViewNode.with { node in
            let noDocument = try await node.query("")
            #expect(noDocument.status == 404)
            #expect(noDocument.object["reason"] as? String == "missing")
            _ = try await node.put("d", Self.design)
            let noView = try await node.ask(node.views.port, "GET /b/_design/d/_view/other")
            #expect(noView.status == 404)
            #expect(noView.object["error"] as? String == "not_found")
            #expect(noView.object["reason"] as? String == "missing_named_view")
            let refused = try await node.ask(
                node.views.port,
                "GET /b/_design/d/_view/m?reduce=true"
            )
            #expect(refused.status == 400)
            #expect(refused.object["error"] as? String == "query_parse_error")
            let deleted = try await node.ask(node.views.port, "DELETE /b/_design/d")
            #expect(deleted.status == 200)
            #expect(try await node.query("").status == 404)
        }
    }

    @Test func queryAfterChangeOfViewUsesItsNewFunctions() async throws {
        try await ViewNode.with { node in
            try await node.write([("one", "{\"n\":1}")])
            _ = try await node.put("d", Self.design)
            #expect(try await node.query("stale=false").rows == [#"{"key":null,"value":2}"#])
            _ = try await node.put(
                "d",
                #"{"views":{"v":{"map":"function (doc) { emit(null, 5); }","reduce":"_sum"}}}"#
            )
            let changed = try await node.query("stale=false")
            #expect(changed.rows == [#"{"key":null,"value":5}"#], "\(changed.text)")
        }
    }

    @Test func nodeWithoutViewsHasNeitherAServiceNorFiles() async throws {
        try await ViewNode.with { node in
            try await node.write([("one", "{\"n\":1}")])
            #expect(try await node.query("").status == 404)
            // A design document without views needs nothing either.
            #expect(try await node.put("empty", "{\"views\":{}}").status == 201)
            #expect(node.node.views?.indexes == nil)
            #expect(node.node.views?.dependencies == nil)
            #expect(!FileManager.default.fileExists(atPath: node.directory + "/indexes"))
            _ = try await node.put("d", Self.design)
            #expect(node.node.views?.indexes != nil)
        }
    }

    /// A start without the directory of indexes, for example on a full disk.
    @Test func viewsWorkWhenTheirDirectoryCanBeCreated() async throws {
        try await ViewNode.withDirectory { directory in
            let indexes = directory + "/indexes"
            let files = FileManager.default
            try files.createDirectory(atPath: directory, withIntermediateDirectories: true)
            // A data directory of Divan has a lock.
            #expect(files.createFile(atPath: directory + "/lock", contents: Data()))
            #expect(files.createFile(atPath: indexes, contents: Data()))
            try await ViewNode.with(directory: directory) { node in
                try await node.provision()
                try await node.write(Self.documents)
                _ = try await node.put("d", Self.design)
                let refused = try await node.query("stale=false")
                #expect(refused.status == 503)
                #expect(refused.object["error"] as? String == "service_unavailable")
                try files.removeItem(atPath: indexes)
                let reply = try await node.query("stale=false")
                #expect(reply.rows == [#"{"key":null,"value":420}"#], "\(reply.text)")
            }
        }
    }

    /// Not after the minute that a query waits for changes to be indexed.
    @Test func queryOfNodeWithoutScriptProgramFailsAtOnceWithReason() async throws {
        try await ViewNode.withDirectory { directory in
            try await ViewNode.with(directory: directory, hasProgram: false) { node in
                try await node.provision()
                _ = try await node.put("d", Self.design)
                try await node.write(Self.documents)
                let began = ContinuousClock.now
                let reply = try await node.query("stale=false")
                #expect(ContinuousClock.now - began < .seconds(30))
                #expect(reply.status == 200)
                let errors = reply.object["errors"] as? [[String: String]]
                let reason = errors?.first?["reason"]
                #expect(reason?.contains("cannot start divan-script") == true, "\(reply.text)")
            }
        }
    }
}
