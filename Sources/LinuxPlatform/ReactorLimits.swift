package import Seams

/// The bounds of one reactor and its connections, each with its reason.
package struct ReactorLimits: Sendable {
    /// Bytes of the receive buffer that all connections share.
    ///
    /// Large enough for a deep pipeline in one read, small enough to stay in the processor's
    /// second-level cache with the replies.
    package var receiveBytes = 256 << 10
    /// Bytes that a connection may buffer unconsumed: the largest frame, its header, and a margin.
    package var inputBytesMax = (30 << 20) + 4_096
    /// Bytes of input that each client's connection may always buffer.
    ///
    /// Small requests never wait for memory, and ten thousand connections use at most 640 MiB.
    package var ownInputBytes = 64 << 10
    /// Bytes that all clients' connections together may buffer beyond `ownInputBytes` each.
    ///
    /// Raised to the size of two of the largest frames; a server sets it by the machine's memory.
    package var clientInputBytesMax = 64 << 20
    /// Bytes of unread replies that all clients together may have beyond `ownInputBytes` each, and
    /// the same amount of waiting requests, before further requests are not accepted.
    package var clientKeptBytesMax = 64 << 20
    /// Timeout after which a client is closed that keeps memory beyond `ownInputBytes` and sends
    /// nothing.
    package var stalledSenderNanoseconds: UInt64 = 30_000_000_000
    /// Bytes that the shared reply buffer keeps between uses; a huge reply must not keep its
    /// memory.
    package var outputBytesKept = 1 << 20
    /// Timeout after which a peer is closed that reads no output.
    package var slowReaderNanoseconds: UInt64 = 30_000_000_000
    /// How long input is discarded after the last output, since closing at once could make the
    /// kernel drop that output.
    package var lingerNanoseconds: UInt64 = 2_000_000_000
    /// Timeout of opening a connection.
    package var connectNanoseconds: UInt64 = 10_000_000_000
    /// How long accepting pauses after an error such as a lack of file descriptors.
    package var acceptPauseNanoseconds: UInt64 = 100_000_000
    /// How long accepting pauses while descriptors are reserved for others: connections that make room
    /// are being closed, and clients wait.
    var descriptorPauseNanoseconds: UInt64 { 10_000_000 }
    /// The descriptors of the process.
    package var descriptors = Descriptors.unlimited

    /// The interval between two checks of deadlines.
    var deadlineCheckNanoseconds: UInt64 {
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
