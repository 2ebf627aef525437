internal import Seams

/// The bounds of one reactor and its connections, each with its reason.
package struct ReactorLimits: Sendable {
    /// Bytes of the receive buffer that all connections share.
    ///
    /// Large enough for a deep pipeline in one read, small enough to stay in the processor's
    /// second-level cache with the replies.
    package var receiveBytes = 256 << 10
    /// Bytes that a connection may hold unconsumed: the largest frame, its header, and some.
    package var inputBytesMax = (30 << 20) + 4_096
    /// Bytes of input that each client's connection may hold whatever others hold: small requests
    /// never wait for memory, and ten thousand connections cost 640 MiB at most.
    package var ownInputBytes = 64 << 10
    /// Bytes beyond these that all clients' connections may hold, raised to what two of the largest
    /// frames need; a server sets it by the machine's memory.
    package var clientInputBytesMax = 64 << 20
    /// Bytes of replies that clients may leave unread beyond the same for each, and as many of
    /// requests that wait, before no more are taken.
    package var clientKeptBytesMax = 64 << 20
    /// A client that keeps memory beyond its own bytes and sends nothing for so long is dropped.
    package var stalledSenderNanoseconds: UInt64 = 30_000_000_000
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
        let shortest = min(slowReaderNanoseconds, lingerNanoseconds, stalledSenderNanoseconds)
        return min(1_000_000_000, max(10_000_000, shortest / 4))
    }

    var receiveSizes: ReceiveSizes {
        ReceiveSizes(
            readBytes: receiveBytes,
            ownBytes: min(ownInputBytes, receiveBytes),
            heldBytesMax: inputBytesMax,
            stalledNanoseconds: stalledSenderNanoseconds
        )
    }

    package init() {}
}
