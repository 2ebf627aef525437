internal import Bytes

/// A key that is put together from shared and own bytes; its memory is reused.
final class KeyBuffer {
    // Unchecked, because a step of a walk would be a third slower.
    @exclusivity(unchecked) private(set) var start: UnsafeMutableRawPointer
    @exclusivity(unchecked) private(set) var count = 0
    @exclusivity(unchecked) private var capacity = 64

    init() { start = Memory.allocate(64) }

    deinit { Memory.free(start) }

    var view: ByteView { ByteView(start: start, count: count) }

    func removeAll() { count = 0 }

    /// Keeps the first `shared` bytes, and appends `length` bytes.
    @inline(__always)
    func replace(after shared: Int, with suffix: UnsafeRawPointer, _ length: Int) {
        let needed = shared + length
        if needed > capacity { grow(to: needed) }
        // Short copies in place: most suffixes have some bytes, and a call costs more.
        if length <= 16 {
            let target = start + shared
            for offset in 0..<length {
                target.storeBytes(
                    of: suffix.load(fromByteOffset: offset, as: UInt8.self),
                    toByteOffset: offset,
                    as: UInt8.self
                )
            }
        } else {
            Memory.copy(to: start + shared, from: suffix, count: length)
        }
        count = needed
    }

    func set(_ key: ByteView) { replace(after: 0, with: key.start, key.count) }

    private func grow(to needed: Int) {
        capacity = max(needed, 2 * capacity)
        start = Memory.reallocate(start, capacity)
    }
}

extension ByteView {
    /// How many bytes two views have in common at their beginning.
    func sharedPrefix(with other: ByteView) -> Int {
        let length = min(count, other.count)
        var offset = 0
        while offset + 8 <= length {
            let one = start.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            let two = other.start.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            let difference = UInt64(littleEndian: one ^ two)
            if difference != 0 { return offset + difference.trailingZeroBitCount / 8 }
            offset += 8
        }
        while offset < length,
            start.load(fromByteOffset: offset, as: UInt8.self)
                == other.start.load(fromByteOffset: offset, as: UInt8.self)
        {
            offset += 1
        }
        return offset
    }
}

/// LEB128 in the memory of a node.
enum Varint {
    /// Reads from a node that was checked.
    @inline(__always)
    static func read(_ base: UnsafeRawPointer, _ offset: inout Int) -> UInt64 {
        let first = base.load(fromByteOffset: offset, as: UInt8.self)
        offset += 1
        if first < 0x80 { return UInt64(first) }
        var value = UInt64(first & 0x7f)
        var shift: UInt64 = 7
        while true {
            let byte = base.load(fromByteOffset: offset, as: UInt8.self)
            offset += 1
            value |= UInt64(byte & 0x7f) &<< shift
            if byte < 0x80 { return value }
            shift += 7
        }
    }

    /// Reads from bytes that end at `end`; nil if the integer is cut short or has over 63 bits.
    @inline(__always)
    static func read(_ base: UnsafeRawPointer, _ offset: inout Int, before end: Int) -> Int? {
        var value = 0
        var shift = 0
        while offset < end, shift < 63 {
            let byte = base.load(fromByteOffset: offset, as: UInt8.self)
            offset += 1
            value |= Int(byte & 0x7f) &<< shift
            if byte < 0x80 { return value }
            shift += 7
        }
        return nil
    }
}

/// Appends the bytes of a payload or a suffix length without a call for each.
struct SmallBytes {
    private var bytes: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    private(set) var count = 0

    /// At most three integers fit.
    @inline(__always)
    mutating func append(_ value: UInt64) {
        var rest = value
        var place = count
        withUnsafeMutableBytes(of: &bytes) { bytes in
            while rest >= 0x80 {
                bytes[place] = UInt8(truncatingIfNeeded: rest) | 0x80
                rest >>= 7
                place += 1
            }
            bytes[place] = UInt8(truncatingIfNeeded: rest)
        }
        count = place + 1
    }

    @inline(__always)
    func withView<Result, Failure: Error>(
        _ body: (ByteView) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let count = count
        var copy = bytes
        return try withUnsafeBytes(of: &copy) { (all) throws(Failure) -> Result in
            try body(ByteView(UnsafeRawBufferPointer(rebasing: all[..<count])))
        }
    }

    static func length(of value: UInt64) -> Int {
        value < 0x80 ? 1 : (70 - value.leadingZeroBitCount) / 7
    }
}
