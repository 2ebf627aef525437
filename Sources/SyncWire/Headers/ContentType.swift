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

    package var isMultipart: Bool { type.hasPrefix("multipart/") }

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
