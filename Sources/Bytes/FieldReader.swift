/// The first field that could not be decoded, and where.
@usableFromInline
package struct CodingFailure: Error, Hashable, Sendable, CustomStringConvertible {
    @usableFromInline
    package enum Reason: Hashable, Sendable {
        /// The bytes end within the field.
        case cutShort
        /// The field has a value that it cannot have.
        case invalid
        /// The kind of what follows is one that this release does not know.
        case unknownKind(UInt8)
        /// Bytes follow the value.
        case bytesLeft
    }

    package let reason: Reason
    package let field: String
    /// The offset in bytes at which the field begins or ends.
    package let offset: Int

    package init(reason: Reason, field: String, offset: Int) {
        self.reason = reason
        self.field = field
        self.offset = offset
    }

    @usableFromInline
    package var description: String {
        switch reason {
        case .cutShort: "The bytes end within the field \(field), at byte \(offset)."
        case .invalid: "The field \(field), which ends at byte \(offset), is invalid."
        case .unknownKind(let kind): "The field \(field) has the unknown kind \(kind)."
        case .bytesLeft: "Bytes follow the last field, \(field), from byte \(offset) on."
        }
    }
}

/// Decodes fields from borrowed bytes.
@usableFromInline
package struct FieldReader: Coder {
    @usableFromInline var bytes: ByteReader
    /// The offset of `bytes` in the message, plus their count.
    @usableFromInline let end: Int
    @usableFromInline var name: StaticString = "kind"

    @inlinable
    package init(_ view: ByteView) {
        self.init(view, end: view.count)
    }

    @inlinable
    init(_ view: ByteView, end: Int) {
        bytes = ByteReader(view)
        self.end = end
    }

    @inlinable package var isAtEnd: Bool { bytes.isAtEnd }
    @inlinable package var bytesLeft: Int { bytes.rest.count }

    @usableFromInline
    package func failure(_ reason: CodingFailure.Reason) -> CodingFailure {
        CodingFailure(reason: reason, field: "\(name)", offset: end - bytesLeft)
    }

    // MARK: Coder

    @inlinable
    package mutating func field<Value: Coded>(
        _ value: inout Value,
        _ name: StaticString
    ) throws(CodingFailure) {
        self.name = name
        value = try Value(from: &self)
    }

    @inlinable
    package mutating func fixed<Integer: FixedWidthInteger>(
        _ value: inout Integer,
        _ name: StaticString
    ) throws(CodingFailure) {
        self.name = name
        value = try readFixed(Integer.self)
    }

    @usableFromInline
    package mutating func bytes(
        _ value: inout [UInt8],
        count: Int,
        _ name: StaticString
    ) throws(CodingFailure) {
        self.name = name
        value = try readBytes(count)
    }

    @inlinable
    package mutating func choice<Value: RawRepresentable>(
        _ value: inout Value,
        _ name: StaticString
    ) throws(CodingFailure) where Value.RawValue: Coded {
        self.name = name
        guard let choice = Value(rawValue: try Value.RawValue(from: &self)) else {
            throw failure(.invalid)
        }
        value = choice
    }

    @inlinable
    package mutating func list<Element>(
        _ list: inout [Element],
        _ name: StaticString,
        blank: @autoclosure () -> Element,
        body: (inout FieldReader, inout Element) throws(CodingFailure) -> Void
    ) throws(CodingFailure) {
        self.name = name
        list.removeAll()
        for _ in 0..<(try readCount()) {
            var element = blank()
            try body(&self, &element)
            list.append(element)
        }
    }

    @inlinable
    package mutating func require(
        _ condition: @autoclosure () -> Bool,
        _ name: StaticString
    ) throws(CodingFailure) {
        if condition() { return }
        self.name = name
        throw failure(.invalid)
    }

    // MARK: Values

    /// Reads the kind of what follows.
    @inlinable
    package mutating func kind(_ name: StaticString) throws(CodingFailure) -> UInt8 {
        self.name = name
        return try readFixed(UInt8.self)
    }

    /// Reads a part of the payload of a kind.
    @inlinable
    package mutating func payload<Value: Coded>() throws(CodingFailure) -> Value {
        try Value(from: &self)
    }

    @inlinable
    package mutating func readFixed<Integer: FixedWidthInteger>(
        _ type: Integer.Type = Integer.self
    ) throws(CodingFailure) -> Integer {
        guard let value = bytes.bigEndian(type) else { throw failure(.cutShort) }
        return value
    }

    @inlinable
    package mutating func readNumber<Integer: FixedWidthInteger>(
        _ type: Integer.Type = Integer.self
    ) throws(CodingFailure) -> Integer {
        guard let value = Integer(exactly: try readLEB128()) else { throw failure(.invalid) }
        return value
    }

    @usableFromInline
    mutating func readLEB128() throws(CodingFailure) -> UInt64 {
        if let value = bytes.leb128() { return value }
        // Ten bytes or more, yet no end of the number, or more than 64 bits.
        throw failure(bytesLeft >= 10 ? .invalid : .cutShort)
    }

    /// Reads the number of elements that follow, each of at least one byte: a damaged count reserves
    /// no memory.
    @usableFromInline
    package mutating func readCount() throws(CodingFailure) -> Int {
        let count = try readNumber(Int.self)
        guard count <= bytesLeft else { throw failure(.cutShort) }
        return count
    }

    @usableFromInline
    mutating func readBytes(_ count: Int) throws(CodingFailure) -> [UInt8] {
        try readView(count).bytes
    }

    @usableFromInline
    package mutating func readView(_ count: Int) throws(CodingFailure) -> ByteView {
        guard let view = bytes.bytes(count) else { throw failure(.cutShort) }
        return view
    }

    /// Reads bytes that their count precedes, as a message of their own.
    @usableFromInline
    package mutating func readPart() throws(CodingFailure) -> FieldReader {
        let view = try readView(try readNumber(Int.self))
        return FieldReader(view, end: end - bytesLeft)
    }
}
