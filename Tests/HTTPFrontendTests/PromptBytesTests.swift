import Bytes
import Foundation
import HTTPFrontend
import Testing

/// Responses that `PromptResponder` writes are those of the framework, byte for byte.
@Suite(.serialized, .timeLimit(.minutes(2))) struct PromptBytesTests {
    private static let design = """
        {"views": {"v": {"map": "function (doc, meta) { emit(doc.n, doc.n * 2); }",
        "reduce": "_sum"}}}
        """
    private static let view = "/b/_design/d/_view/v"

    /// Targets whose responses need no wait on a node that has their rows.
    private static let prompt = [
        "\(view)?stale=ok&reduce=false&key=3", "\(view)?stale=ok&reduce=false&keys=%5B1,2,7%5D",
        "\(view)?stale=ok&endkey=9", "\(view)?stale=ok&endkey=9&group=true&limit=3",
        "\(view)?stale=ok&group_level=1&startkey=5&endkey=9",
        "\(view)?stale=ok&reduce=false&limit=0",
        "\(view)?stale=ok&reduce=false&descending=true&skip=2&limit=5&startkey=50",
        "\(view)?stale=ok&reduce=false&limit=1&debug=true", "/b/_design%2Fd/_view/v?stale=ok&key=1",
        "\(view)?key=%7B", "\(view)?limit=x", "\(view)?reduce=false&group=true",
        "/b/_design/d/_view/other", "/b/_design/other/_view/v",
    ]
    /// Targets whose responses need none either, but that reach no query.
    private static let refused = ["/absent/_design/d/_view/v", "\(view)?key=%FF"]
    /// Targets that continue on other threads: more rows than a first turn reads, and documents.
    private static let begun = [
        "\(view)?stale=ok&reduce=false", "\(view)?stale=ok&reduce=false&limit=2&include_docs=true",
    ]

    /// The bytes of the response to one request, with the date masked.
    private static func bytes(_ port: UInt16, _ lines: [String]) async throws -> String {
        let text = lines.joined(separator: "\r\n") + "\r\n\r\n"
        return try await apart {
            let client = try RawClient(port: port)
            try client.send(text)
            return try client.unparsedResponse()
        }
    }

    /// Compares the responses with and without a field that the framework ignores.
    private static func compare(
        _ node: ViewNode,
        _ target: String,
        _ fields: [String],
        version: String = "HTTP/1.1"
    ) async throws {
        let lines = ["GET \(target) \(version)", "Host: 127.0.0.1"] + fields
        let first = try await bytes(node.views.port, lines)
        let second = try await bytes(node.views.port, lines + ["Expect: framework"])
        #expect(first == second, "\(target) \(fields) \(version)")
    }

    @Test func responsesHaveTheBytesOfTheFramework() async throws {
        try await ViewNode.with { node in
            try await node.write((1...200).map { (id: "doc\($0)", json: "{\"n\":\($0)}") })
            #expect(try await node.put("d", Self.design).status == 201)
            #expect(try await node.query("stale=false").rows.count == 1)
            let login = Site.Login.administrator.headers
            node.queries.counts.withLock { $0 = CountedQueries.Counts() }
            for target in Self.prompt + Self.refused {
                try await Self.compare(node, target, login)
            }
            let (prompt, begun) = (Self.prompt.count, Self.begun.count)
            let one = CountedQueries.Counts(prompt: prompt, begun: 0, awaited: prompt)
            #expect(node.queries.counts.withLock { $0 } == one)
            for target in Self.begun { try await Self.compare(node, target, login) }
            // A begun query may be complete before its beginning returns, and is then prompt.
            let two = node.queries.counts.withLock { $0 }
            #expect(two.prompt + two.begun == prompt + begun, "nothing is carried out twice")
            #expect(two.awaited == prompt + begun)
            for login in [[], Site.Login.basic("Administrator", "wrong").headers] {
                try await Self.compare(node, Self.prompt[0], login)
                try await Self.compare(node, Self.prompt[0], login + ["invalid-auth-response: on"])
            }
            #expect(node.queries.counts.withLock { $0 } == two)
            for fields in [["Connection: close"], ["Connection: keep-alive"], []] {
                for version in ["HTTP/1.0", "HTTP/1.1"] {
                    try await Self.compare(
                        node,
                        Self.prompt[0],
                        login + fields,
                        version: version
                    )
                }
            }
        }
    }

    @Test func responseHasTheDateOfNow() async throws {
        try await ViewSite.with { views in
            views.queries.promptScript.withLock { $0 = { _ in .whole(Array("{}".utf8)) } }
            let response = try await views.ask("GET \(Self.view)")
            #expect(views.queries.promptViews.withLock { $0 } == ["v"])
            let format = DateFormatter()
            format.locale = Locale(identifier: "en_US_POSIX")
            format.timeZone = TimeZone(secondsFromGMT: 0)
            format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
            let text = try #require(response.headers["date"])
            let date = try #require(format.date(from: text), "\(text)")
            #expect(format.string(from: date) == text)
            #expect(abs(date.timeIntervalSinceNow) < 120)
        }
    }
}

extension RawClient {
    /// One whole response as received, without its date; its body has a length or chunks.
    fileprivate func unparsedResponse() throws -> String {
        let head = String(decoding: try bytes(through: "\r\n\r\n"), as: UTF8.self)
        let lines = head.components(separatedBy: "\r\n").map { line in
            line.hasPrefix("Date: ") && line.hasSuffix(" GMT") && line.utf8.count == 35
                ? "Date: masked" : line
        }
        let prefix = "Content-Length: "
        let field = lines.first { $0.hasPrefix(prefix) }
        let length = field.flatMap { Int($0.dropFirst(prefix.count)) }
        let body: [UInt8]
        if let length {
            body = try bytes(length)
        } else {
            // The sizes of chunks depend on how fast rows arrive.
            var chunks: [UInt8] = []
            while let chunk = try chunk() { chunks += chunk }
            body = chunks
        }
        return lines.joined(separator: "\n") + "\n\n" + String(decoding: body, as: UTF8.self)
    }
}
