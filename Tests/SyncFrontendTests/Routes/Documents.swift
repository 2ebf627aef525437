import Foundation
import Testing

/// Documents of tests.
extension GatewayWorld {
    /// Writes a document in the channel `public`; returns its revision.
    @discardableResult
    func put(
        _ id: String,
        _ members: String = #""n":1"#,
        query: String = "",
        _ login: Login = .jane
    ) throws -> String {
        let body = #"{"channels":["public"],\#(members)}"#
        let answer = try ask("PUT /db/\(id)\(query)", login, body: body)
        #expect(answer.status == 201, "\(answer.text)")
        return answer.revision
    }

    /// Writes revisions with a history, newest first, in the channel `public`.
    func replicate(_ id: String, _ history: [String], _ members: String = #""n":1"#) throws {
        let start = history[0].prefix { $0 != "-" }
        let digests = history.map { "\"\($0.drop { $0 != "-" }.dropFirst())\"" }
        let revisions =
            #""_revisions":{"start":\#(start),"ids":[\#(digests.joined(separator: ","))]}"#
        let body = #"{"channels":["public"],\#(members),\#(revisions)}"#
        let answer = try ask("PUT /db/\(id)?new_edits=false", body: body)
        #expect(answer.status == 201, "\(answer.text)")
        #expect(answer.revision == history[0])
    }
}

extension GatewayClient.Answer {
    /// The boundary of a multipart answer; empty if it is none.
    var boundary: String {
        let type = headers["content-type"] ?? ""
        return type.firstRange(of: "boundary=\"").map { type[$0.upperBound...].dropLast() }
            .map(String.init) ?? ""
    }

    /// The text with each of its boundaries, of 60 digits, replaced by its number: `--B1`.
    var framing: String {
        var text = text
        var count = 0
        while let found = text.firstMatch(of: /[0-9a-f]{60}/) {
            count += 1
            text = text.replacingOccurrences(of: String(found.output), with: "B\(count)")
        }
        return text
    }
}
