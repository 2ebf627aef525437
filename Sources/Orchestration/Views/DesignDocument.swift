package import Bytes
internal import Vocabulary

/// Identifies one text of a design document: how often it changed, and a digest of the text.
package struct DesignRevision: Hashable, Sendable, CodedFields, CustomStringConvertible {
    /// From 1; one more with every change.
    ///
    /// A document that was deleted and created again begins at 1.
    package private(set) var number: UInt32 = 0
    /// CRC-32 of the text.
    package private(set) var digest: UInt32 = 0

    /// As `absent`.
    package init() {}

    package init(number: UInt32, digest: UInt32) {
        self.number = number
        self.digest = digest
    }

    /// Stands for a document that does not exist, in the basis of a change.
    package static let absent = DesignRevision()

    /// As clients see it: `1-9bdf8353`.
    package var description: String {
        let digits = String(digest, radix: 16)
        return "\(number)-" + String(repeating: "0", count: 8 - digits.count) + digits
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&number, "number")
        try coder.fixed(&digest, "digest")
    }
}

/// A design document: some views of one bucket, defined together by a JSON text.
///
/// The text alone is stored and agreed on. A release that reads it in another way than this one
/// therefore has the same state.
///
/// - The text has no blanks between its tokens, so two texts that differ only in these are equal.
/// - A text that is equal to the present one is no change, and keeps the revision.
package struct DesignDocument: Hashable, Sendable, Coded {
    /// Without `_design/`; the name of a development document begins with `dev_`.
    package let name: String
    /// UTF-8.
    package let body: [UInt8]
    package let revision: DesignRevision
    /// The views and options of the text; empty if a release with other rules accepted it.
    package let definition: DesignDefinition
    /// The number of views that counts against `Limits.viewsOfAllMax`.
    package let viewCount: Int

    package init(name: String, body: [UInt8], number: UInt32) {
        self.name = name
        self.body = body
        let digest = body.withUnsafeBytes { CRC32.checksum(ByteView($0)) }
        revision = DesignRevision(number: number, digest: digest)
        definition = (try? DesignDefinition(of: body)) ?? DesignDefinition()
        viewCount = Self.viewCount(of: body)
    }

    /// The digest is not stored: it is derived from the text.
    package func write(to writer: inout FieldWriter) {
        name.write(to: &writer)
        revision.number.write(to: &writer)
        body.write(to: &writer)
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        let (name, number) = (try String(from: &reader), try UInt32(from: &reader))
        self.init(name: name, body: try reader.payload(), number: number)
    }

    package static let idPrefix = "_design/"

    /// As clients see it: `_design/NAME`.
    package var id: String { Self.idPrefix + name }

    package var isDevelopment: Bool { name.hasPrefix(DesignDocument.developmentPrefix) }

    /// How the names of development documents begin.
    package static let developmentPrefix = "dev_"

    /// The bytes that count against `Limits.designDocumentsBytesMax`.
    package var byteCount: Int { Self.byteCount(name: name, body: body) }

    package static func byteCount(name: String, body: [UInt8]) -> Int {
        name.utf8.count + body.count + Limits.designOverheadBytes
    }

    /// The objects in the members of a text's members: `{"views":{"one":{}}}` has one.
    ///
    /// Each view is one. The state is validated by it, so the count must never depend on the rules of a
    /// release for texts: it counts braces outside of strings.
    package static func viewCount(of text: [UInt8]) -> Int {
        var (depth, count) = (0, 0)
        var strings = StringScan()
        for byte in text where !strings.isWithin(byte) {
            switch byte {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                if depth == 3, byte == UInt8(ascii: "{") { count += 1 }
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            default: break
            }
        }
        return count
    }

    /// Whether this is the document of that name.
    ///
    /// Compares bytes: texts that only look alike name different documents, as they name different
    /// keys.
    package func isNamed(_ other: String) -> Bool { name.utf8.elementsEqual(other.utf8) }

    /// The text without blanks between its tokens; for JSON only.
    package static func compacted(_ text: [UInt8]) -> [UInt8] {
        var strings = StringScan()
        return text.filter { byte in
            strings.isWithin(byte) || ![0x20, 0x09, 0x0a, 0x0d].contains(byte)
        }
    }
}

/// Finds the strings of a JSON text, byte by byte.
private struct StringScan {
    private var isInString = false
    private var isEscaped = false

    /// Whether the next byte belongs to a string, of which its quotes are a part.
    mutating func isWithin(_ byte: UInt8) -> Bool {
        guard isInString else {
            isInString = byte == UInt8(ascii: "\"")
            return isInString
        }
        if isEscaped {
            isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
            isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
            isInString = false
        }
        return true
    }
}
