package import Seams

/// The bounds of connections between nodes, each with its reason.
package struct PeerLimits: Sendable {
    /// How long a handshake may take: strangers must not occupy connections.
    package var handshakeNanoseconds: UInt64 = 5_000_000_000
    /// How long connecting to a node may take, including name resolution and handshake.
    package var openNanoseconds: UInt64 = 6_000_000_000
    /// Accepted connections before the end of their handshake; above this the oldest is closed.
    package var halfOpenMax = 64
    /// Accepted connections of strangers (`join`) after their handshake; above this the oldest is
    /// closed.
    package var strangersMax = 16
    /// How long a stranger's connection may live: a join is one request and one answer.
    package var strangerNanoseconds: UInt64 = 60_000_000_000
    /// As `contentBytesMax`, for strangers: any process that reaches the port can be one.
    package var strangerContentBytesMax = 1 << 20
    /// Unconsumed content of one connection: the largest frame and its header, as for a client's
    /// connection.
    package var contentBytesMax = (30 << 20) + 4_096
    /// Replies that may accumulate before the connection must send some.
    package var outputBytesMax = 256 << 10
    /// Frames to one node that wait to be sent, and frames from one node that wait to be handled:
    /// two of the largest.
    package var queueBytesMax = 48 << 20
    /// Larger payloads are bulk unless the sender decides: a beat must not wait for a piece of a
    /// snapshot.
    package var urgentBytesMax = 16 << 10
    /// Bytes of bulk frames sent in one turn: the most that an urgent frame waits for.
    package var bulkBytesPerTurn = 256 << 10
    /// The pause between connection attempts doubles from the minimum to the maximum, with jitter.
    package var backoffNanosecondsMin: UInt64 = 50_000_000
    package var backoffNanosecondsMax: UInt64 = 1_000_000_000
    /// If an answer is outstanding and nothing arrives for this time, the node is pinged.
    package var pingNanoseconds: UInt64 = 1_000_000_000
    /// If an answer is outstanding and nothing arrives for this time, the connection is closed.
    ///
    /// TCP alone would retry for a quarter of an hour, and still wait after the network recovered.
    package var silenceNanoseconds: UInt64 = 3_000_000_000

    package init() {}

    /// The bounds of a process with few descriptors: strangers leave most of the nodes' part to nodes.
    package init(within plan: DescriptorPlan) {
        halfOpenMax = min(halfOpenMax, max(1, plan.part(of: .nodes) / 4))
        strangersMax = min(strangersMax, max(1, plan.part(of: .nodes) / 8))
    }
}
