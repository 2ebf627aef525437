internal import Bytes

/// Which forms of an answer a client accepts: the header `Accept`.
package struct Acceptance: Equatable, Sendable {
    /// The accepted ranges in lower case, without parameters; those with a quality of 0 are left out.
    private let ranges: [String]

    private static let rangesMax = 64

    /// Parses a header's value; nil (no such header) and the empty text accept everything.
    package init(_ value: String?) {
        let bytes = Array((value ?? "").utf8)
        ranges = bytes.withUnsafeBytes { buffer in
            ASCII.split(ByteView(buffer), at: ",").prefix(Acceptance.rangesMax).compactMap {
                Acceptance.range($0)
            }
        }
    }

    package var acceptsJSON: Bool {
        accepts { ["application/*", "application/json"].contains($0) }
    }
    /// Whether any kind is accepted: Couchbase Lite asks for `multipart/related` and gets `multipart/mixed`.
    package var acceptsMultipart: Bool { accepts { $0.hasPrefix("multipart/") } }

    /// The form of an answer.
    package enum Form: Sendable {
        case json
        case multipart
        /// Status 406: the client accepts neither.
        case none
    }

    /// The form of one document: multipart if it is accepted and there are bodies of attachments, or JSON is not
    /// accepted (contract, section 5).
    package func documentForm(hasBodies: Bool) -> Form {
        if acceptsMultipart, hasBodies || !acceptsJSON { return .multipart }
        return acceptsJSON ? .json : .none
    }

    /// The form of several revisions or documents (`open_revs`, `_bulk_get`): multipart if it is accepted.
    package var listForm: Form { acceptsMultipart ? .multipart : acceptsJSON ? .json : .none }

    private func accepts(_ isOfType: (String) -> Bool) -> Bool {
        ranges.isEmpty || ranges.contains { $0 == "*/*" || isOfType($0) }
    }

    /// The range of one element; nil if it is empty or excluded.
    private static func range(_ text: ByteView) -> String? {
        let parts = ASCII.split(text, at: ";")
        let isExcluded = parts.dropFirst().contains { part in
            guard let (name, value) = ASCII.cut(part, at: "=") else { return false }
            return ASCII.equals(ASCII.trimmed(name), "q") && Double(ASCII.trimmed(value).text) == 0
        }
        let range = ASCII.trimmed(parts[0])
        if range.isEmpty { return nil }
        // An excluded range is none, but its header is not empty.
        if isExcluded { return "" }
        return String(decoding: range.buffer.map { ASCII.lowercased($0) }, as: UTF8.self)
    }
}
