package import Bytes
package import Vocabulary

/// What a lane brings along when it enters a vBucket: the time, taken once, and its own arena.
package struct Turn {
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

    package var seconds: UInt32 { UInt32(truncatingIfNeeded: wallNanoseconds / 1_000_000_000) }
}
