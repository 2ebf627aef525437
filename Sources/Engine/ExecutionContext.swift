package import Bytes
package import Vocabulary

/// What a lane brings along when it enters a vBucket: the time, taken once, and its own arena.
package struct ExecutionContext {
    /// Since 1970.
    package let wallNanoseconds: UInt64
    package let arena: Arena
    /// For values that have to be put together before they are stored.
    package let scratch: ByteWriter
    /// Where set, store, delete, extend and arithmetic prepare what they otherwise would store.
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
    /// What ends then lasts `seconds` at least and less than one second more. The end of what would
    /// outlast 32 bits is `UInt32.max`.
    package func end(after seconds: UInt32) -> UInt32 {
        let (whole, rest) = wallNanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        return UInt32(clamping: whole + UInt64(seconds) + (rest == 0 ? 0 : 1))
    }
}
