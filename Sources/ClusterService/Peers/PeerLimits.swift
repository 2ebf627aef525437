/// The bounds of connections between nodes, each with its reason.
package struct PeerLimits: Sendable {
    /// How long a handshake may take: strangers must not hold connections for nothing.
    package var handshakeNanoseconds: UInt64 = 5_000_000_000
    /// How long it may take to reach a node, name look-up and handshake included.
    package var openNanoseconds: UInt64 = 6_000_000_000
    /// Connections that were accepted and have not proved anything yet; beyond it the oldest goes.
    package var halfOpenMax = 64
    /// Accepted connections of strangers (`join`) that have greeted; beyond it the oldest goes.
    package var strangersMax = 16
    /// How long a stranger may stay: a join is a question and an answer.
    package var strangerNanoseconds: UInt64 = 60_000_000_000
    /// As `contentBytesMax`, for strangers: anybody who reaches the port may be one.
    package var strangerContentBytesMax = 1 << 20
    /// Unconsumed content of one connection: the largest frame, its header, and some; as for a
    /// client's.
    package var contentBytesMax = (30 << 20) + 4_096
    /// Replies that pile up before the connection must take some.
    package var outputBytesMax = 256 << 10
    /// Frames to one node that wait to be sent, and frames of one node that wait to be handled:
    /// two of the largest.
    package var queueBytesMax = 48 << 20
    /// Payloads above this wait behind all others where the sender does not say: a beat must not
    /// wait for a piece of a snapshot.
    package var urgentBytesMax = 16 << 10
    /// Bytes of patient frames that go out at once: what urgent ones wait for at most.
    package var bulkBytesPerTurn = 256 << 10
    /// Between attempts to reach a node; doubled from the one to the other, and less by dice.
    package var backoffNanosecondsMin: UInt64 = 50_000_000
    package var backoffNanosecondsMax: UInt64 = 1_000_000_000
    /// After so long without a word while there is something outstanding, a node is asked whether it
    /// is there.
    package var pingNanoseconds: UInt64 = 1_000_000_000
    /// After so long without a word while there is something outstanding, the connection is closed.
    ///
    /// TCP would go on trying for a quarter of an hour, and go on waiting after the network healed.
    package var silenceNanoseconds: UInt64 = 3_000_000_000

    package init() {}
}
