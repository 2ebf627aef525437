import Foundation
import HTTPFrontend
import Testing

/// Queries with keys that are longer than those of any row, on a whole node.
@Suite(.serialized) struct ViewBoundKeyTests {
    private static let design = """
        {"views": {"v": {"map": "function (doc) { emit(doc.t, null); }"}}}
        """

    /// The row of `long` has 4 002 bytes of key.
    private static let documents = [
        (id: "short", json: #"{"t":"w"}"#),
        (id: "long", json: "{\"t\":\"\(String(repeating: "x", count: 4_000))\"}"),
        (id: "last", json: #"{"t":"xy"}"#),
        (id: "array", json: #"{"t":["x"]}"#),
    ]

    private static let bound = "\"" + String(repeating: "x", count: 65_534) + "\""
    private static let array = "[\"" + String(repeating: "x", count: 65_532) + "\"]"

    @Test func keyBoundOf64KiBSelectsRowsInOrder() async throws {
        try await ViewNode.with { node in
            try await node.write(Self.documents)
            #expect(try await node.put("d", Self.design).status == 201)
            func ids(_ body: String) async throws -> [String] {
                let reply = try await node.query("stale=false", keys: body)
                #expect(reply.status == 200, "\(reply.text.prefix(200))")
                #expect(reply.object["errors"] == nil, "\(reply.text.prefix(200))")
                let rows = reply.object["rows"] as? [[String: Any]] ?? []
                return rows.compactMap { $0["id"] as? String }
            }
            let bound = Self.bound
            #expect(try await ids("{\"startkey\":\(bound)}") == ["last", "array"])
            #expect(try await ids("{\"endkey\":\(bound)}") == ["short", "long"])
            #expect(try await ids("{\"startkey\":\(bound),\"endkey\":[]}") == ["last"])
            let down = "\"descending\":true"
            #expect(try await ids("{\"startkey\":\(bound),\(down)}") == ["long", "short"])
            let open = "{\"endkey\":\(bound),\(down),\"inclusive_end\":false}"
            #expect(try await ids(open) == ["array", "last"])
            #expect(try await ids("{\"startkey\":\(Self.array)}") == [])
            #expect(try await ids("{\"startkey\":[],\"endkey\":\(Self.array)}") == ["array"])
            // No row has such a key.
            #expect(try await ids("{\"key\":\(bound)}") == [])
            #expect(try await ids("{\"keys\":[\(bound),\"w\",\(Self.array)]}") == ["short"])
            // A longer text of a row's key.
            let escaped = "\"" + String(repeating: "\\u0078", count: 4_000) + "\""
            #expect(try await ids("{\"key\":\(escaped)}") == ["long"])
            #expect(try await ids("{\"keys\":[\(escaped)]}") == ["long"])
        }
    }

    @Test func boundBeyond64KiBIsRefused() async throws {
        try await ViewNode.with { node in
            #expect(try await node.put("d", Self.design).status == 201)
            for name in ["key", "startkey", "end_key"] {
                let body = "{\"\(name)\":\(Self.bound.dropLast())x\"}"
                let reply = try await node.query("", keys: body)
                #expect(reply.status == 400)
                #expect(reply.object["error"] as? String == "query_parse_error")
                let reason = reply.object["reason"] as? String
                #expect(reason?.contains("`\(name)` is longer than 65536 bytes") == true)
            }
        }
    }
}
