internal import CPrefetch

/// A borrowed, bounds-checked range of bytes.
///
/// Frames, keys and values pass through the data path as views of memory with another owner (a
/// receive buffer, an item), which avoids copies. A view is two words, with no reference counting.
///
/// - The owner outlives the view: a view is never stored beyond the call it was passed to.
/// - Every access is checked against `count`; a wrong offset is a bug in Divan and ends the
///   process.
@usableFromInline
package struct ByteView {
    @usableFromInline package let start: UnsafeRawPointer
    @usableFromInline package let count: Int

    @inlinable
    package init(start: UnsafeRawPointer, count: Int) {
        precondition(count >= 0, "a view cannot have a negative length")
        self.start = start
        self.count = count
    }

    @inlinable
    package init(_ buffer: UnsafeRawBufferPointer) {
        self.count = buffer.count
        self.start = buffer.baseAddress ?? ByteView.nowhere
    }

    /// A view of no bytes.
    @inlinable
    package static var empty: ByteView { ByteView(start: nowhere, count: 0) }

    @inlinable
    package var isEmpty: Bool { count == 0 }

    @inlinable
    package var buffer: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: start, count: count)
    }

    @inlinable
    package subscript(offset: Int) -> UInt8 {
        precondition(offset >= 0 && offset < count, "byte \(offset) is outside the view")
        return start.load(fromByteOffset: offset, as: UInt8.self)
    }

    /// The `length` bytes from `offset` on.
    @inlinable
    package func slice(_ offset: Int, _ length: Int) -> ByteView {
        precondition(
            offset >= 0 && length >= 0 && length <= count && offset <= count - length,
            "a slice must lie within its view"
        )
        return ByteView(start: start + offset, count: length)
    }

    /// The bytes from `offset` to the end.
    @inlinable
    package func dropFirst(_ offset: Int) -> ByteView { slice(offset, count - offset) }

    @inlinable
    package func bigEndian<Integer: FixedWidthInteger>(at offset: Int, as: Integer.Type) -> Integer
    {
        precondition(
            offset >= 0 && offset <= count - MemoryLayout<Integer>.size,
            "an integer must lie within its view"
        )
        return Integer(bigEndian: start.loadUnaligned(fromByteOffset: offset, as: Integer.self))
    }

    @inlinable
    package func littleEndian<Integer: FixedWidthInteger>(
        at offset: Int,
        as: Integer.Type
    ) -> Integer {
        precondition(
            offset >= 0 && offset <= count - MemoryLayout<Integer>.size,
            "an integer must lie within its view"
        )
        return Integer(littleEndian: start.loadUnaligned(fromByteOffset: offset, as: Integer.self))
    }

    @inlinable
    package func equals(_ other: ByteView) -> Bool {
        count == other.count && Memory.areEqual(start, other.start, count: count)
    }

    /// Lexicographic order of the bytes.
    @inlinable
    package func precedes(_ other: ByteView) -> Bool {
        let order = Memory.compare(start, other.start, count: min(count, other.count))
        return order == 0 ? count < other.count : order < 0
    }

    /// The bytes as text, with ill-formed UTF-8 repaired: for names, logs and JSON only.
    package var text: String { String(decoding: buffer, as: UTF8.self) }

    /// A copy that owns its bytes.
    package var bytes: [UInt8] { [UInt8](buffer) }

    package func prefetch() { divan_prefetch(start) }

    @usableFromInline
    package static var nowhere: UnsafeRawPointer { Memory.nowhere }
}

extension String {
    /// Calls `body` with the UTF-8 bytes, borrowed.
    package func withView<Result>(_ body: (ByteView) -> Result) -> Result {
        var text = self
        return text.withUTF8 { body(ByteView(UnsafeRawBufferPointer($0))) }
    }
}
