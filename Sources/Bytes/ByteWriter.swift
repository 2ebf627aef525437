/// A growing buffer to append to, for replies, frames and blocks.
///
/// One writer is reused for many replies: a reactor fills it, sends it, and calls `removeAll`,
/// which keeps the memory. Each integer method names its byte order.
@usableFromInline
package final class ByteWriter {
    // Unchecked, because three run-time checks of exclusive access cost more than writing a header.
    @exclusivity(unchecked) @usableFromInline
    package internal(set) var start: UnsafeMutableRawPointer
    @exclusivity(unchecked) @usableFromInline package internal(set) var capacity: Int
    @exclusivity(unchecked) @usableFromInline var used = 0

    package init(capacity: Int = 256) {
        self.capacity = max(capacity, 16)
        self.start = Memory.allocate(self.capacity)
    }

    deinit { Memory.free(start) }

    /// Computed, because other modules would check access to a stored property at run time.
    @inlinable @inline(__always) package var count: Int { used }

    @inlinable package var view: ByteView { ByteView(start: start, count: count) }

    package var bytes: [UInt8] { view.bytes }

    /// Calls `body` with the content, borrowed.
    ///
    /// For a writer in a local variable: its last use may be the access to `view`, and then its memory is freed
    /// before the view is read.
    package func withView<Result, Failure: Error>(
        _ body: (ByteView) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        defer { withExtendedLifetime(self) {} }
        return try body(view)
    }

    /// Removes the content and keeps the memory.
    @inlinable package func removeAll() { used = 0 }

    /// Removes the content, and shrinks the memory to `capacityMax` if it is larger.
    package func removeAll(keepingAtMost capacityMax: Int) {
        used = 0
        guard capacity > capacityMax else { return }
        capacity = capacityMax
        start = Memory.reallocate(start, capacity)
    }

    /// Removes all but the first `length` bytes.
    package func truncate(to length: Int) {
        precondition(length >= 0 && length <= count, "a writer is truncated to at most its length")
        used = length
    }

    /// Removes the first `length` bytes and moves the rest to the front.
    package func removeFirst(_ length: Int) {
        precondition(length >= 0 && length <= count, "a writer has the bytes to remove")
        Memory.copy(to: start, from: start + length, count: count - length)
        used -= length
    }

    /// Makes room for `additional` bytes after the content.
    @inlinable
    package func reserve(_ additional: Int) {
        let needed = count + additional
        if needed > capacity { grow(to: needed) }
    }

    /// Appends `length` bytes of undefined content and returns their address, which is valid until
    /// the next append.
    @inlinable
    package func claim(_ length: Int) -> UnsafeMutableRawPointer {
        reserve(length)
        let place = start + count
        used += length
        return place
    }

    @inlinable
    package func append(_ byte: UInt8) {
        claim(1).storeBytes(of: byte, as: UInt8.self)
    }

    @inlinable
    package func append(bigEndian value: some FixedWidthInteger) {
        store(value.bigEndian)
    }

    @inlinable
    package func append(littleEndian value: some FixedWidthInteger) {
        store(value.littleEndian)
    }

    @inlinable
    package func append(_ view: ByteView) {
        Memory.copy(to: claim(view.count), from: view.start, count: view.count)
    }

    package func append(_ other: ByteWriter) { other.withView { append($0) } }

    @inlinable
    package func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { append(ByteView($0)) }
    }

    package func append(_ text: StaticString) {
        append(ByteView(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    package func append(text: String) {
        text.withView { append($0) }
    }

    /// Overwrites an integer that was appended before, for lengths known only afterwards.
    @inlinable
    package func replace(at offset: Int, bigEndian value: some FixedWidthInteger) {
        let size = value.bitWidth / 8
        precondition(offset >= 0 && offset <= count - size, "only written bytes can be replaced")
        withUnsafeBytes(of: value.bigEndian) { bytes in
            (start + offset).copyMemory(from: bytes.baseAddress ?? Memory.nowhere, byteCount: size)
        }
    }

    @inlinable
    func store<Integer: FixedWidthInteger>(_ value: Integer) {
        claim(MemoryLayout<Integer>.size).storeBytes(of: value, as: Integer.self)
    }

    @usableFromInline
    func grow(to needed: Int) {
        var larger = capacity
        while larger < needed { larger *= 2 }
        capacity = larger
        start = Memory.reallocate(start, larger)
    }
}
