/// A bounds-checked cursor over borrowed bytes.
///
/// A read beyond the end returns nil and consumes nothing.
@usableFromInline
package struct ByteReader {
    @usableFromInline package internal(set) var rest: ByteView

    @inlinable
    package init(_ view: ByteView) {
        rest = view
    }

    @inlinable
    package var isAtEnd: Bool { rest.isEmpty }

    /// Reads a big-endian integer; nil if too few bytes are left.
    @inlinable
    package mutating func bigEndian<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer? {
        guard rest.count >= MemoryLayout<Integer>.size else { return nil }
        defer { rest = rest.dropFirst(MemoryLayout<Integer>.size) }
        return rest.bigEndian(at: 0, as: type)
    }

    /// Reads a little-endian integer; nil if too few bytes are left.
    @inlinable
    package mutating func littleEndian<Integer: FixedWidthInteger>(
        _ type: Integer.Type
    ) -> Integer? {
        guard rest.count >= MemoryLayout<Integer>.size else { return nil }
        defer { rest = rest.dropFirst(MemoryLayout<Integer>.size) }
        return rest.littleEndian(at: 0, as: type)
    }

    /// Reads `count` bytes; nil if fewer are left.
    @inlinable
    package mutating func bytes(_ count: Int) -> ByteView? {
        guard count >= 0, rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.slice(0, count)
    }

    /// Reads a LEB128 integer; nil if it is cut short or has more than 64 bits.
    package mutating func leb128() -> UInt64? {
        guard let (value, length) = LEB128.decode(rest) else { return nil }
        rest = rest.dropFirst(length)
        return value
    }
}
