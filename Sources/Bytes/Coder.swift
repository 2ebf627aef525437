/// A value with one encoding, in messages between nodes and on disk.
///
/// An enum with payloads implements both directions. A struct lists its fields once
/// (`CodedFields`).
@usableFromInline
package protocol Coded {
    func write(to writer: inout FieldWriter)
    init(from reader: inout FieldReader) throws(CodingFailure)

    /// As `write` and `init(from:)`, for a value that is not part of another one.
    func writeWhole(to writer: inout FieldWriter)
    init(wholeFrom reader: inout FieldReader) throws(CodingFailure)
}

extension Coded {
    @inlinable
    package func writeWhole(to writer: inout FieldWriter) { write(to: &writer) }

    @inlinable
    package init(wholeFrom reader: inout FieldReader) throws(CodingFailure) {
        try self.init(from: &reader)
    }

    package func append(to output: ByteWriter) {
        var writer = FieldWriter(output)
        writeWhole(to: &writer)
    }

    package var encoded: [UInt8] {
        let output = ByteWriter()
        append(to: output)
        return output.bytes
    }

    /// Decodes a value.
    ///
    /// - Parameters:
    ///   - view: The bytes of the value.
    ///   - skipsRest: Whether bytes may follow the value, as fields of a later release do.
    /// - Throws: `CodingFailure` with the field that the bytes end in or that they have an invalid
    ///   value of.
    package init(decoding view: ByteView, skipsRest: Bool = false) throws(CodingFailure) {
        var reader = FieldReader(view)
        try self.init(wholeFrom: &reader)
        guard skipsRest || reader.isAtEnd else { throw reader.failure(.bytesLeft) }
    }

    /// As `init(decoding:skipsRest:)` with a view.
    package init(decoding bytes: [UInt8], skipsRest: Bool = false) throws(CodingFailure) {
        let result = bytes.withUnsafeBytes { buffer -> Result<Self, CodingFailure> in
            Result { () throws(CodingFailure) in
                try Self(decoding: ByteView(buffer), skipsRest: skipsRest)
            }
        }
        self = try result.get()
    }
}

/// A value that lists its fields once, for both directions.
///
///     struct Place: CodedFields {
///         var node = NodeNumber(0)
///         var host = ""
///
///         mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
///             try coder.field(&node, "node")
///             try coder.field(&host, "host")
///         }
///     }
@usableFromInline
package protocol CodedFields: Coded {
    /// A value whose fields `code` sets.
    init()
    mutating func code(_ coder: inout some Coder) throws(CodingFailure)
}

extension CodedFields {
    @inlinable
    package func write(to writer: inout FieldWriter) { writeWhole(to: &writer) }

    @inlinable
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        try self.init(wholeFrom: &reader)
    }

    @inlinable
    package func writeWhole(to writer: inout FieldWriter) {
        writer.write(fieldsOf: self)
    }

    @inlinable
    package init(wholeFrom reader: inout FieldReader) throws(CodingFailure) {
        self.init()
        try code(&reader)
    }
}

/// Fields that a later release may add to at the end: within another value their length precedes
/// them, and a reader skips the bytes after the fields that it knows.
@usableFromInline
package protocol ExtensibleFields: CodedFields {}

extension ExtensibleFields {
    @inlinable
    package func write(to writer: inout FieldWriter) {
        writer.writePart { writeWhole(to: &$0) }
    }

    @inlinable
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        var fields = try reader.readPart()
        try self.init(wholeFrom: &fields)
    }
}

/// One direction of an encoding: `FieldWriter` appends the values of fields, `FieldReader` sets them.
///
/// A reader uses at most a small multiple of its input in memory.
@usableFromInline
package protocol Coder {
    mutating func field<Value: Coded>(_ value: inout Value, _ name: StaticString)
        throws(CodingFailure)

    /// All bytes of an integer, the highest first: for random numbers, which LEB128 makes longer.
    mutating func fixed<Integer: FixedWidthInteger>(
        _ value: inout Integer,
        _ name: StaticString
    ) throws(CodingFailure)

    /// Exactly `count` bytes, without their count.
    mutating func bytes(_ value: inout [UInt8], count: Int, _ name: StaticString)
        throws(CodingFailure)

    /// The raw value of an enum's case.
    mutating func choice<Value: RawRepresentable>(
        _ value: inout Value,
        _ name: StaticString
    ) throws(CodingFailure) where Value.RawValue: Coded

    /// A list whose elements `body` codes, each with at least one byte.
    mutating func list<Element>(
        _ list: inout [Element],
        _ name: StaticString,
        blank: @autoclosure () -> Element,
        body: (inout Self, inout Element) throws(CodingFailure) -> Void
    ) throws(CodingFailure)

    /// Refuses a value that the field cannot have; a writer refuses none.
    mutating func require(
        _ condition: @autoclosure () -> Bool,
        _ name: StaticString
    ) throws(CodingFailure)
}

extension Coder {
    /// A text of which an empty one means nil.
    @inlinable
    package mutating func optional(
        _ text: inout String?,
        _ name: StaticString
    ) throws(CodingFailure) {
        var value = text ?? ""
        try field(&value, name)
        text = value.isEmpty ? nil : value
    }

    /// A number of which zero means nil.
    @inlinable
    package mutating func optional<Integer: Coded & FixedWidthInteger>(
        _ number: inout Integer?,
        _ name: StaticString
    ) throws(CodingFailure) {
        var value = number ?? 0
        try field(&value, name)
        number = value == 0 ? nil : value
    }

    /// The difference of a number to another one: few bytes if they are near.
    package mutating func difference(
        _ number: inout UInt64,
        to other: UInt64,
        _ name: StaticString
    ) throws(CodingFailure) {
        var distance = LEB128.zigzag(Int64(bitPattern: number &- other))
        try field(&distance, name)
        number = other &+ UInt64(bitPattern: LEB128.unzigzag(distance))
    }

    /// Two flags in one byte, the first one in the lowest bit.
    @inlinable
    package mutating func flags(
        _ first: inout Bool,
        _ second: inout Bool,
        name: StaticString
    ) throws(CodingFailure) {
        var value = UInt8(first ? 1 : 0) | (second ? 2 : 0)
        try field(&value, name)
        let read = value
        try require(read < 4, name)
        first = value & 1 != 0
        second = value & 2 != 0
    }
}
