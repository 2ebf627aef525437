internal import Bytes
internal import Vocabulary

/// Why the bytes of a message between nodes are not a message.
package enum QueryMessageError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The bytes end within this field.
    case truncated(String)
    /// This field has a value that it cannot have.
    case invalid(String)
    /// A kind of message that this release does not know.
    case unknownKind(UInt8)

    package var description: String {
        switch self {
        case .truncated(let field): "The message ends within its field \(field)."
        case .invalid(let field): "The message's field \(field) is invalid."
        case .unknownKind(let kind): "The message has the unknown kind \(kind)."
        }
    }
}

/// Reads the fields of a message; every failure names its field.
struct RecordReader {
    private(set) var reader: ByteReader

    init(_ bytes: ByteView) {
        reader = ByteReader(bytes)
    }

    var isAtEnd: Bool { reader.isAtEnd }

    mutating func byte(_ field: String) throws(QueryMessageError) -> UInt8 {
        guard let byte = reader.bigEndian(UInt8.self) else { throw .truncated(field) }
        return byte
    }

    mutating func flag(_ field: String) throws(QueryMessageError) -> Bool {
        let byte = try byte(field)
        guard byte <= 1 else { throw .invalid(field) }
        return byte == 1
    }

    /// A LEB128 number that fits `type`.
    mutating func number<Integer: FixedWidthInteger>(
        _ field: String,
        _ type: Integer.Type
    ) throws(QueryMessageError) -> Integer {
        guard let value = reader.leb128() else { throw .truncated(field) }
        guard let number = Integer(exactly: value) else { throw .invalid(field) }
        return number
    }

    /// The number of items that follow, each of at least one byte.
    mutating func count(_ field: String) throws(QueryMessageError) -> Int {
        let count = try number(field, Int.self)
        guard count <= reader.rest.count else { throw .truncated(field) }
        return count
    }

    mutating func bytes(_ field: String) throws(QueryMessageError) -> ByteView {
        let count = try number(field, Int.self)
        guard let bytes = reader.bytes(count) else { throw .truncated(field) }
        return bytes
    }

    mutating func text(_ field: String) throws(QueryMessageError) -> String {
        try bytes(field).text
    }

    /// A record within this one; the bytes behind the fields that this release knows are skipped.
    mutating func record(_ field: String) throws(QueryMessageError) -> RecordReader {
        RecordReader(try bytes(field))
    }
}

/// Appends the fields that `RecordReader` reads.
struct RecordWriter {
    let output: ByteWriter

    init(_ output: ByteWriter) {
        self.output = output
    }

    func byte(_ byte: UInt8) { output.append(byte) }

    func flag(_ flag: Bool) { output.append(flag ? 1 : UInt8(0)) }

    func number(_ number: some BinaryInteger) { LEB128.append(UInt64(number), to: output) }

    func bytes(_ bytes: [UInt8]) {
        number(bytes.count)
        output.append(bytes)
    }

    func text(_ text: String) { bytes(Array(text.utf8)) }

    /// Appends the fields that `body` writes as a record: their length, then they.
    func record(_ body: (RecordWriter) -> Void) {
        let fields = ByteWriter()
        body(RecordWriter(fields))
        number(fields.count)
        output.append(fields.view)
    }
}
