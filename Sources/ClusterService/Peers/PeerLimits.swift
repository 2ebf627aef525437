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
    /// Unconsumed content of one connection: some frames of a link, whose handler consumes each at once.
    package var contentBytesMax = 1 << 20
    /// Replies that may accumulate before the connection must send some.
    package var outputBytesMax = 256 << 10
    /// Messages to one node that wait to be sent: two of the largest.
    package var queueBytesMax = 48 << 20
    /// Larger payloads are bulk unless the sender decides: a beat must not wait for a piece of a
    /// snapshot.
    package var urgentBytesMax = 16 << 10
    /// The pause between connection attempts doubles from the minimum to the maximum, with jitter.
    package var backoffNanosecondsMin: UInt64 = 50_000_000
    package var backoffNanosecondsMax: UInt64 = 1_000_000_000
    /// The pause between two checks of a link, at which a silent node is pinged.
    package var pingNanoseconds: UInt64 = 1_000_000_000
    /// Checks without a byte after which a link is closed: TCP alone would retry for a quarter of an hour,
    /// and still wait after the network recovered.
    package var silentTicksMax = 3
    /// Checks without a stream after which a link is closed.
    package var idleTicksMax = 60
    /// Streams to one node that wait for its link.
    package var waitingMax = 1_024
    /// A call of a node that succeeds takes no longer than this.
    ///
    /// If two nodes start at the same time, neither may abandon its first attempt.
    package var promptNanoseconds: UInt64 = 300_000_000
    /// The pause before a node calls another one again that is calling it.
    package var crossingNanoseconds: UInt64 = 50_000_000

    package init() {}

    /// The bounds of a process with few descriptors: strangers leave most of the nodes' part to nodes.
    package init(within plan: DescriptorPlan) {
        halfOpenMax = min(halfOpenMax, max(1, plan.part(of: .nodes) / 4))
        strangersMax = min(strangersMax, max(1, plan.part(of: .nodes) / 8))
    }
}
