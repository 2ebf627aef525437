/// A bounds-checked cursor over borrowed bytes: every read may come up short, none may overrun.
@usableFromInline
package struct ByteReader {
    @usableFromInline package internal(set) var rest: ByteView

    @inlinable
    package init(_ view: ByteView) {
        rest = view
    }

    @inlinable
    package var isAtEnd: Bool { rest.isEmpty }

    /// The next big-endian integer, or nil where too few bytes are left.
    @inlinable
    package mutating func bigEndian<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer? {
        guard rest.count >= MemoryLayout<Integer>.size else { return nil }
        defer { rest = rest.dropFirst(MemoryLayout<Integer>.size) }
        return rest.bigEndian(at: 0, as: type)
    }

    /// The next little-endian integer, or nil where too few bytes are left.
    @inlinable
    package mutating func littleEndian<Integer: FixedWidthInteger>(
        _ type: Integer.Type
    ) -> Integer? {
        guard rest.count >= MemoryLayout<Integer>.size else { return nil }
        defer { rest = rest.dropFirst(MemoryLayout<Integer>.size) }
        return rest.littleEndian(at: 0, as: type)
    }

    /// The next `count` bytes, or nil where fewer are left.
    @inlinable
    package mutating func bytes(_ count: Int) -> ByteView? {
        guard count >= 0, rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.slice(0, count)
    }

    /// The next LEB128 integer of at most 64 bits, or nil where it is cut short or too long.
    package mutating func leb128() -> UInt64? {
        guard let (value, length) = LEB128.decode(rest) else { return nil }
        rest = rest.dropFirst(length)
        return value
    }
}
