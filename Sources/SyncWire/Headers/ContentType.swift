internal import Bytes

/// The value of a header with parameters: `Content-Type: multipart/related; boundary="..."`.
package struct ContentType: Equatable, Sendable {
    /// `TYPE/SUBTYPE` in lower case.
    package let type: String
    private let parameters: [(name: String, value: String)]

    /// More parameters are ignored, valid ones or not.
    private static let parametersMax = 16

    /// Parses a header's value; nil if it does not begin with `TYPE/SUBTYPE`.
    package init?(_ value: String) {
        let bytes = Array(value.utf8)
        let parsed = bytes.withUnsafeBytes { ContentType.parse(ByteView($0)) }
        guard let parsed else { return nil }
        (type, parameters) = parsed
    }

    /// The value of a parameter, its name compared without case; nil if there is none.
    package subscript(name: String) -> String? {
        parameters.first { parameter in parameter.name.withView { ASCII.equals($0, name) } }?.value
    }

    package static func == (one: ContentType, other: ContentType) -> Bool {
        one.type == other.type && one.parameters.elementsEqual(other.parameters, by: ==)
    }

    /// The reader for a multipart body of this type.
    ///
    /// - Throws: `.badBoundary` if there is no valid boundary.
    package func multipartReader() throws(MultipartFailure) -> MultipartReader {
        guard let boundary = self["boundary"] else { throw .badBoundary }
        return try MultipartReader(boundary: boundary)
    }

    private static func parse(_ text: ByteView) -> (String, [(name: String, value: String)])? {
        let end = text.buffer.firstIndex(of: UInt8(ascii: ";")) ?? text.count
        let type = ASCII.trimmed(text.slice(0, end))
        guard let (main, sub) = ASCII.cut(type, at: "/"), isToken(main), isToken(sub) else {
            return nil
        }
        var parameters: [(name: String, value: String)] = []
        var rest = text.dropFirst(end)
        var count = 0
        while !rest.isEmpty, count < parametersMax {
            count += 1
            // The separator.
            rest = rest.dropFirst(1)
            guard let (name, value, length) = parameter(rest) else {
                // An invalid parameter ends at the next separator.
                rest = rest.dropFirst(rest.buffer.firstIndex(of: UInt8(ascii: ";")) ?? rest.count)
                continue
            }
            parameters.append((name, value))
            rest = rest.dropFirst(length)
        }
        let lower = type.buffer.map { ASCII.lowercased($0) }
        return (String(decoding: lower, as: UTF8.self), parameters)
    }

    /// The parameter at the front of `text`, and its length up to the next separator or the end.
    private static func parameter(_ text: ByteView) -> (name: String, value: String, length: Int)? {
        let semicolon = UInt8(ascii: ";")
        guard let (name, rest) = ASCII.cut(text, at: "="), isToken(ASCII.trimmed(name)) else {
            return nil
        }
        let start = text.count - rest.count
        var offset = start
        while offset < text.count, ASCII.isBlank(text[offset]) { offset += 1 }
        if offset < text.count, text[offset] == UInt8(ascii: "\"") {
            guard let (value, length) = HeaderText.unquote(text.dropFirst(offset)) else {
                return nil
            }
            let behind = text.dropFirst(offset + length)
            let end = behind.buffer.firstIndex(of: semicolon) ?? behind.count
            return (ASCII.trimmed(name).text, value, offset + length + end)
        }
        let end = rest.buffer.firstIndex(of: semicolon) ?? rest.count
        return (ASCII.trimmed(name).text, ASCII.trimmed(rest.slice(0, end)).text, start + end)
    }

    private static func isToken(_ text: ByteView) -> Bool {
        !text.isEmpty
            && text.buffer.allSatisfy {
                $0 > 0x20 && $0 < 0x7f && !"\"(),/:;<=>?@[\\]{}".utf8.contains($0)
            }
    }
}

/// Texts in header values.
enum HeaderText {
    /// The content of the quoted string at the front of `text`, and its length with the quotes; nil if it does
    /// not end.
    static func unquote(_ text: ByteView) -> (value: String, length: Int)? {
        var content: [UInt8] = []
        var offset = 1
        while offset < text.count {
            switch text[offset] {
            case UInt8(ascii: "\""):
                return (String(decoding: content, as: UTF8.self), offset + 1)
            case UInt8(ascii: "\\"):
                guard offset + 1 < text.count else { return nil }
                content.append(text[offset + 1])
                offset += 2
            default:
                content.append(text[offset])
                offset += 1
            }
        }
        return nil
    }
}

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
