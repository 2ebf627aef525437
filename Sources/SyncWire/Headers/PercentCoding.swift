package import Bytes
internal import JSON

/// Percent-encoding (RFC 3986, section 2.1): path segments, forms, and logins in URLs.
package enum PercentCoding {
    /// The decoded text; nil if a percent sign is not followed by two hexadecimal digits, or the result is not
    /// UTF-8.
    ///
    /// In forms and query strings a plus sign is a blank.
    package static func decode(_ text: ByteView, plusIsBlank: Bool = false) -> String? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var offset = 0
        while offset < text.count {
            switch text[offset] {
            case UInt8(ascii: "%"):
                guard text.count - offset >= 3, let high = hexDigit(text[offset + 1]),
                    let low = hexDigit(text[offset + 2])
                else { return nil }
                bytes.append(high << 4 | low)
                offset += 3
            case UInt8(ascii: "+") where plusIsBlank:
                bytes.append(0x20)
                offset += 1
            default:
                bytes.append(text[offset])
                offset += 1
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// The text with everything but letters, digits and `-._~` escaped, so that it is one segment of a path, and
    /// survives in a query and a login too.
    package static func encode(_ text: String) -> String {
        var encoded = ""
        for byte in text.utf8 {
            if isUnreserved(byte) {
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                let digits = String(byte, radix: 16, uppercase: true)
                encoded += digits.utf8.count == 1 ? "%0\(digits)" : "%\(digits)"
            }
        }
        return encoded
    }

    /// The decoded segments of a raw path.
    ///
    /// The path is divided before it is decoded, so that `%2F` stays within an id. Nil if a segment cannot be
    /// decoded. The path `/` has no segments, `/db/` has `db` and an empty one.
    package static func segments(ofPath path: ByteView) -> [String]? {
        guard !path.isEmpty, path[0] == UInt8(ascii: "/") else { return nil }
        if path.count == 1 { return [] }
        var segments: [String] = []
        for part in ASCII.split(path.dropFirst(1), at: "/") {
            guard let segment = decode(part) else { return nil }
            segments.append(segment)
        }
        return segments
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        ASCII.digit(byte) != nil || ASCII.lowercased(byte) &- UInt8(ascii: "a") < 26
            || "-._~".utf8.contains(byte)
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        if let digit = ASCII.digit(byte) { return UInt8(digit) }
        let letter = ASCII.lowercased(byte) &- UInt8(ascii: "a")
        return letter < 6 ? letter + 10 : nil
    }
}

/// The parameters of a query string or a form (`application/x-www-form-urlencoded`).
///
/// If a name occurs several times, the first value counts, as in Go. A parameter that cannot be decoded is left
/// out, as in Go.
package struct URLParameters: Equatable, Sendable {
    private var values: [String: String] = [:]

    package static let none = URLParameters()

    private init() {}

    /// - Throws: `.queryTooLong` above `SyncLimits.queryBytesMax`, `.tooMany("query")` above
    ///   `SyncLimits.queryParametersMax` parameters.
    package init(_ query: ByteView) throws(RequestRefusal) {
        guard query.count <= SyncLimits.queryBytesMax else { throw .queryTooLong }
        let parts = ASCII.split(query, at: "&").filter { !$0.isEmpty }
        guard parts.count <= SyncLimits.queryParametersMax else { throw .tooMany("query") }
        for part in parts {
            let (name, value) = ASCII.cut(part, at: "=") ?? (part, .empty)
            guard let name = PercentCoding.decode(name, plusIsBlank: true),
                let value = PercentCoding.decode(value, plusIsBlank: true), values[name] == nil
            else { continue }
            values[name] = value
        }
    }

    /// The value of a parameter; nil if it is absent.
    package subscript(name: String) -> String? { values[name] }

    /// Whether a parameter is `true`; false for anything else.
    package func bool(_ name: String) -> Bool { values[name] == "true" }

    /// A number without sign; nil if the parameter is absent or something else.
    package func integer(_ name: String) -> Int? {
        values[name].flatMap { $0.withView { ASCII.number($0, as: Int.self) } }
    }

    /// A text, which may be a JSON string: CouchDB's clients quote keys and sequences.
    package func string(_ name: String) -> String? {
        guard let text = values[name] else { return nil }
        guard text.utf8.first == UInt8(ascii: "\"") else { return text }
        return JSONValue.parse(text)?.string ?? text
    }
}
