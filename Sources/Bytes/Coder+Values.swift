/// One byte.
extension UInt8: Coded {
    @inlinable
    package func write(to writer: inout FieldWriter) { writer.output.append(self) }

    @inlinable
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        self = try reader.readFixed()
    }
}

/// The byte 0 or 1.
extension Bool: Coded {
    @inlinable
    package func write(to writer: inout FieldWriter) { writer.output.append(self ? 1 : UInt8(0)) }

    @inlinable
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        let byte = try reader.readFixed(UInt8.self)
        guard byte <= 1 else { throw reader.failure(.invalid) }
        self = byte == 1
    }
}

/// An integer of more than one byte as LEB128.
extension Coded where Self: FixedWidthInteger {
    @inlinable
    package func write(to writer: inout FieldWriter) { writer.write(number: self) }

    @inlinable
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        self = try reader.readNumber()
    }
}

extension UInt16: Coded {}
extension UInt32: Coded {}
extension UInt64: Coded {}
extension Int: Coded {}

/// UTF-8, preceded by its count; ill-formed bytes are repaired.
extension String: Coded {
    @inlinable
    package func write(to writer: inout FieldWriter) {
        var text = self
        text.withUTF8 { bytes in
            writer.write(number: bytes.count)
            writer.output.append(ByteView(UnsafeRawBufferPointer(bytes)))
        }
    }

    @usableFromInline
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        self = try reader.readView(try reader.readNumber()).text
    }
}

/// The elements, preceded by their count.
extension Array: Coded where Element: Coded {
    @inlinable
    package func write(to writer: inout FieldWriter) {
        writer.write(number: count)
        if Element.self == UInt8.self {
            withUnsafeBytes { writer.output.append(ByteView($0)) }
        } else {
            for element in self { element.write(to: &writer) }
        }
    }

    @inlinable
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        let count = try reader.readCount()
        if Element.self == UInt8.self {
            self = unsafeBitCast(try reader.readBytes(count), to: [Element].self)
            return
        }
        self = []
        for _ in 0..<count { append(try Element(from: &reader)) }
    }
}

/// A flag, and the value if there is one.
extension Optional: Coded where Wrapped: Coded {
    @inlinable
    package func write(to writer: inout FieldWriter) {
        (self != nil).write(to: &writer)
        self?.write(to: &writer)
    }

    @inlinable
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        self = try Bool(from: &reader) ? try Wrapped(from: &reader) : nil
    }
}
