internal import Bytes

/// Bytes of one connection that its handler has not consumed yet.
///
/// Allocates only while there are such bytes: idle connections use no memory here, and a large
/// value of known length needs one allocation of exactly that size.
struct InputBuffer {
    private var start: UnsafeMutableRawPointer?
    private(set) var count = 0
    private(set) var capacity = 0

    var view: ByteView {
        guard let start else { return .empty }
        return ByteView(start: start, count: count)
    }

    /// The unused part of the buffer, for the next bytes.
    var free: UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: start.map { $0 + count }, count: capacity - count)
    }

    /// Adds bytes that were written to `free` to the content.
    mutating func extend(by length: Int) {
        precondition(length >= 0 && length <= capacity - count, "bytes were written past the end")
        count += length
    }

    /// Reallocates the buffer to exactly `wanted` bytes, or to its content's size if that is
    /// larger.
    mutating func resize(to wanted: Int) {
        let wanted = max(wanted, count)
        guard wanted != capacity else { return }
        guard wanted > 0 else { return clear() }
        start = Memory.reallocate(start, wanted)
        capacity = wanted
    }

    /// Replaces the content; `bytes` must not be in this buffer.
    mutating func store(_ bytes: ByteView, capacity wanted: Int) {
        count = 0
        let wanted = max(wanted, bytes.count)
        if wanted == 0 { return clear() }
        if capacity < wanted || capacity > 2 * wanted { resize(to: wanted) }
        if let start { Memory.copy(to: start, from: bytes.start, count: bytes.count) }
        count = bytes.count
    }

    /// Removes the first bytes and moves the rest to the front.
    mutating func removeFirst(_ length: Int) {
        precondition(length >= 0 && length <= count, "a buffer cannot remove more than its content")
        if length == count { return clear() }
        guard length > 0, let start else { return }
        Memory.copy(to: start, from: start + length, count: count - length)
        count -= length
    }

    mutating func clear() {
        if let start { Memory.free(start) }
        start = nil
        count = 0
        capacity = 0
    }
}
