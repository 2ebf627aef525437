internal import Bytes

/// The header fields of a part, in their order; names are compared without case.
package struct PartHeaders: Equatable, Sendable {
    package static let fieldsMax = 64

    package let fields: [(name: String, value: String)]

    package init(_ fields: [(name: String, value: String)] = []) {
        self.fields = fields
    }

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
