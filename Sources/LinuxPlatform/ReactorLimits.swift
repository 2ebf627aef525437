/// The bounds of one reactor and its connections, each with its reason.
package struct ReactorLimits: Sendable {
    /// Bytes of the receive buffer that all connections share.
    ///
    /// Large enough for a deep pipeline in one read, small enough to stay in the processor's
    /// second-level cache with the replies.
    package var receiveBytes = 256 << 10
    /// Bytes that a connection may hold unconsumed: the largest frame, its header, and some.
    package var inputBytesMax = (30 << 20) + 4_096
    /// Bytes that the shared reply buffer keeps between uses; one huge reply must not pin memory.
    package var outputBytesKept = 1 << 20
    /// A peer that takes nothing for so long is dropped.
    package var slowReaderNanoseconds: UInt64 = 30_000_000_000
    /// How long we read on after our last word, so that closing does not destroy it on its way.
    package var lingerNanoseconds: UInt64 = 2_000_000_000
    /// How long a connection may take to open.
    package var connectNanoseconds: UInt64 = 10_000_000_000
    /// How long accepting pauses where there are no descriptors left.
    package var acceptPauseNanoseconds: UInt64 = 100_000_000

    /// How far apart the looks at deadlines are.
    var deadlinePrecision: UInt64 {
        min(1_000_000_000, max(10_000_000, min(slowReaderNanoseconds, lingerNanoseconds) / 4))
    }

    package init() {}
}
