package import Bytes
package import Vocabulary

/// A thread's arguments for calls of a vBucket: the time, read once per turn, and its own arena.
package struct ExecutionContext {
    /// The time since 1970.
    package let wallNanoseconds: UInt64
    package let arena: Arena
    /// A buffer for values that are assembled before they are stored.
    package let scratch: ByteWriter
    /// If set, store, delete, extend and arithmetic make a prepare of this level, not a version.
    package var durability: DurabilityLevel?

    package init(wallNanoseconds: UInt64, arena: Arena, scratch: ByteWriter) {
        self.wallNanoseconds = wallNanoseconds
        self.arena = arena
        self.scratch = scratch
    }

    /// Whole seconds since 1970: what has an expiry of this second or an earlier one is expired.
    package var seconds: UInt32 { UInt32(truncatingIfNeeded: wallNanoseconds / 1_000_000_000) }

    /// The first whole second that is at least `seconds` away, in seconds since 1970.
    ///
    /// A lock or expiry with that end lasts at least `seconds` and less than one second more.
    /// `UInt32.max` if the end does not fit in 32 bits.
    package func end(after seconds: UInt32) -> UInt32 {
        let (whole, rest) = wallNanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        return UInt32(clamping: whole + UInt64(seconds) + (rest == 0 ? 0 : 1))
    }
}
