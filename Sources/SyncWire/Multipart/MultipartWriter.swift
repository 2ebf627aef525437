package import Bytes
internal import JSON

/// Writes the lines between the parts of a multipart body, as Go's writer does.
///
/// The caller writes the body of a part behind `beginPart`, in as many pieces as it likes.
package struct MultipartWriter {
    package let boundary: String
    private var hasParts = false

    /// - Precondition: `boundary` is one (`MultipartReader.isBoundary`), and occurs in no part: 60 random
    ///   hexadecimal digits, for example.
    package init(boundary: String) {
        precondition(MultipartReader.isBoundary(boundary), "a writer has a valid boundary")
        self.boundary = boundary
    }

    /// The value of `Content-Type` for the whole body, `multipart/KIND; boundary="..."`.
    package func contentType(_ kind: String) -> String {
        "multipart/\(kind); boundary=\"\(boundary)\""
    }

    /// Appends the boundary and headers of the next part.
    package mutating func beginPart(_ headers: PartHeaders, to output: ByteWriter) {
        output.append(text: hasParts ? "\r\n--\(boundary)\r\n" : "--\(boundary)\r\n")
        hasParts = true
        for (name, value) in headers.fields {
            output.append(text: "\(name): \(MultipartWriter.singleLine(value))\r\n")
        }
        output.append("\r\n")
    }

    /// Appends the last boundary.
    ///
    /// `agent` is the client's `User-Agent`. CouchDB's parser fails on a line end behind the last
    ///   boundary, so it gets none (an issue of Sync Gateway, number 319).
    package func end(agent: String?, to output: ByteWriter) {
        endNested(to: output)
        if agent?.hasPrefix("CouchDB") != true { output.append("\r\n") }
    }

    /// Appends the last boundary of a multipart that is a part of another one: no line end follows.
    package func endNested(to output: ByteWriter) {
        output.append(text: "\r\n--\(boundary)--")
    }

    /// The value with blanks in place of control characters, which would begin another header.
    private static func singleLine(_ value: String) -> String {
        String(decoding: value.utf8.map { $0 < 0x20 || $0 == 0x7f ? 0x20 : $0 }, as: UTF8.self)
    }
}

extension PartHeaders {
    /// A document's JSON.
    package static let document = PartHeaders([("Content-Type", "application/json")])

    /// The JSON of an error, in place of a document.
    package static let error = PartHeaders([("Content-Type", "application/json; error=\"true\"")])

    /// A document with attachments that is a multipart of its own.
    package static func nested(
        _ writer: MultipartWriter,
        document: String,
        revision: RevisionID
    ) -> PartHeaders {
        PartHeaders([
            ("Content-Type", writer.contentType("related")), ("X-Doc-Id", document),
            ("X-Rev-Id", revision.description),
        ])
    }

    /// An attachment; names are in the order of Go's writer.
    ///
    /// `encoding` is `gzip` if the body is stored compressed.
    package static func attachment(
        _ name: String,
        contentType: String?,
        encoding: String? = nil
    ) -> PartHeaders {
        var fields = [("Content-Disposition", "attachment; filename=\(quoted(name))")]
        if let encoding { fields.append(("Content-Encoding", encoding)) }
        if let contentType { fields.append(("Content-Type", contentType)) }
        return PartHeaders(fields.map { (name: $0.0, value: $0.1) })
    }

    /// The text in quotes, as parameters of headers have it.
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for character in text.unicodeScalars {
            if character == "\"" || character == "\\" { quoted.unicodeScalars.append("\\") }
            quoted.unicodeScalars.append(character)
        }
        return quoted + "\""
    }
}

/// The header fields of a part, in their order; names are compared without case.
package struct PartHeaders: Equatable, Sendable {
    package static let fieldsMax = 64

    package let fields: [(name: String, value: String)]

    package init(_ fields: [(name: String, value: String)] = []) { self.fields = fields }

    /// Parses lines, each with a CRLF before it.
    ///
    /// A line that begins with a blank continues the one before it.
    ///
    /// - Throws: `.badHeader`, `.headersTooLarge` above `fieldsMax`.
    init(_ block: ByteView) throws(MultipartFailure) {
        var fields: [(name: String, value: String)] = []
        for line in ASCII.split(block, at: "\n") {
            let isEnded = !line.isEmpty && line[line.count - 1] == 0x0d
            let line = isEnded ? line.slice(0, line.count - 1) : line
            if line.isEmpty { continue }
            if ASCII.isBlank(line[0]), let last = fields.popLast() {
                fields.append((last.name, "\(last.value) \(ASCII.trimmed(line).text)"))
                continue
            }
            guard let (name, value) = ASCII.cut(line, at: ":"), PartHeaders.isName(name) else {
                throw .badHeader
            }
            guard fields.count < PartHeaders.fieldsMax else { throw .headersTooLarge }
            fields.append((name.text, ASCII.trimmed(value).text))
        }
        self.fields = fields
    }

    /// The value of the first field of that name; nil if there is none.
    package subscript(name: String) -> String? {
        fields.first { field in field.name.withView { ASCII.equals($0, name) } }?.value
    }

    package static func == (one: PartHeaders, other: PartHeaders) -> Bool {
        one.fields.elementsEqual(other.fields, by: ==)
    }

    /// Whether `name` is a token of HTTP without blanks and control characters.
    private static func isName(_ name: ByteView) -> Bool {
        !name.isEmpty && name.buffer.allSatisfy { $0 > 0x20 && $0 < 0x7f }
    }
}
