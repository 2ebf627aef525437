/// The bounds of the connections on which nodes query each other's indexes, each with its reason.
package struct QueryLimits: Sendable {
    /// Queries that a coordinator has at one node at a time.
    ///
    /// It bounds what the node holds for replies that are not sent yet: the credit of each query.
    package static let queriesMax = 64
    /// Bytes of a request.
    ///
    /// The largest one has `keys`: each of their sort keys (8 MiB in all) is in two bounds, with some ten
    /// bytes besides each. A connection receives one request at a time; once it is complete, its keys count
    /// in `KeyMemory`.
    package static let requestBytesMax = 40 << 20
    /// Bytes of a frame with a part of a request.
    package static let partBytesMax = 16 << 10
    /// Bytes of requests that were sent and not acknowledged.
    ///
    /// A connection that cannot send does not read either. If both sides sent more than the kernel
    /// buffers, neither would ever read. Replies are large, so requests have a window that every
    /// socket buffers.
    package static let windowBytes = 32 << 10
    /// Bytes of a reply: a batch is sent at 64 KiB, and one row, with a value of 1 MiB, may follow.
    package static let replyBytesMax = 4 << 20
    /// Bytes that a connection sends before the reactor serves its other connections again.
    static let turnBytes = 256 << 10

    /// The pause between two checks of a connection, at which a silent node is pinged.
    package var tickNanoseconds: UInt64 = 2_000_000_000
    /// Checks without a query after which a connection is closed: a minute.
    package var idleTicksMax = 30
    /// Checks without a byte of a node that has queries, after which the connection to it is closed: TCP
    /// alone would retry for a quarter of an hour.
    package var silentTicksMax = 5
    /// The same for the responder, which receives nothing while its output waits: as long as a reactor
    /// waits for a slow reader.
    package var silentCoordinatorTicksMax = 15

    package init() {}
}
