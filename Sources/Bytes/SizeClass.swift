/// The block sizes of an arena: steps of 8 bytes up to 256, then eight steps per doubling.
///
/// Above 256 bytes a block is at most 12.5 % larger than requested. Small documents, which are
/// many, waste 3.5 bytes on average.
@usableFromInline
package enum SizeClass {
    @inlinable package static var bytesMax: Int { 16 << 10 }
    @inlinable package static var count: Int { 32 + 6 * 8 }

    /// The smallest class that holds `bytes`, which is 1 to `bytesMax`.
    @inlinable @inline(__always)
    package static func index(of bytes: Int) -> Int {
        if bytes <= 256 { return (bytes + 7) >> 3 - 1 }
        let top = Int.bitWidth - 1 - (bytes - 1).leadingZeroBitCount
        return 32 + (top - 8) * 8 + ((bytes - 1) >> (top - 3) & 7)
    }

    /// The size of the blocks of a class.
    @inlinable @inline(__always)
    package static func bytes(of index: Int) -> Int {
        if index < 32 { return (index + 1) << 3 }
        let (doubling, step) = ((index - 32) >> 3, (index - 32) & 7)
        return (9 + step) << (doubling + 5)
    }

    /// The memory that a block for `bytes` takes, in an arena or from the system.
    @inlinable @inline(__always)
    package static func footprint(of bytes: Int) -> Int {
        bytes <= bytesMax ? SizeClass.bytes(of: index(of: bytes)) : (bytes + 16 + 15) & ~15
    }
}

extension SizeClass {
    /// Whether a block allocated for `one` bytes can hold `other` bytes, and be freed with that
    /// size.
    @inlinable @inline(__always)
    package static func areInterchangeable(_ one: Int, _ other: Int) -> Bool {
        #if SYSTEM_ALLOCATOR
            one == other
        #else
            one == other
                || (one <= bytesMax && other <= bytesMax && index(of: one) == index(of: other))
        #endif
    }
}
