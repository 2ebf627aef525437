package import Bytes
package import Vocabulary

/// Streams of messages between this node and the others.
///
/// All streams of two nodes share the connections of the pair, so a stream costs two short frames. Loss,
/// silence and ejection of a node end all its streams.
package protocol NodeStreams: Sendable {
    /// Serves the streams of a service that other nodes open; replaces the previous `accept`.
    ///
    /// - Parameters:
    ///   - service: The service.
    ///   - accept: Makes the handler of a new stream from the request, or returns nil to refuse it;
    ///     called on a reactor.
    func serve(
        _ service: NodeService,
        _ accept: @escaping @Sendable (any StreamPort, ByteView) -> (any StreamHandler)?
    )

    /// Opens a stream to a node, and a connection first if there is none.
    ///
    /// - Parameters:
    ///   - service: The service of the other node.
    ///   - node: The other node; may be this one.
    ///   - request: At most `NodeStreamLimits.requestBytesMax` bytes, which the other side gets when it
    ///     accepts the stream.
    ///   - opened: Makes the handler, on a reactor, before the other side has accepted the stream.
    ///   - failed: Called instead, on any thread, perhaps before this returns. The text has no full
    ///     stop, as it becomes the end of a sentence.
    func open(
        _ service: NodeService,
        to node: NodeNumber,
        request: [UInt8],
        opened: @escaping @Sendable (any StreamPort) -> any StreamHandler,
        failed: @escaping @Sendable (String) -> Void
    )
}

/// The bounds of streams between nodes.
package enum NodeStreamLimits {
    /// Bytes of the request with which a stream is opened.
    package static let requestBytesMax = 16 << 10
    /// Bytes that a stream sends before other streams have a turn.
    package static let turnBytes = 64 << 10
}

/// One end of a stream between two nodes.
///
/// All calls may come from any thread.
package protocol StreamPort: AnyObject, Sendable {
    /// The node at the other end.
    var node: NodeNumber { get }
    /// The number of the reactor that calls the handler.
    var reactor: Int { get }
    /// Makes the reactor call the handler's `wake`, then `send`; no effect if the stream is over.
    func wake()
    /// Ends the stream and drops what was not sent.
    ///
    /// - Parameter reason: For `closed` at both sides, without a full stop: "it ended the connection".
    func end(_ reason: String?)
    /// Lets the other side send so many more bytes, for messages that the handler has kept.
    func release(_ bytes: Int)
}

/// The outcome of a message at the handler of a stream.
package enum StreamReception: Sendable {
    /// It is handled.
    case handled
    /// The handler has kept it, and calls `StreamPort.release` later.
    case kept
    /// The handler cannot handle it now: the same message comes again after `StreamPort.wake`.
    case paused
    /// The stream is over: the other side has broken its protocol. Completes "it sent ...".
    case invalid(String)
}

/// The protocol of one stream between two nodes.
///
/// Only the stream's reactor calls it, one call at a time. Messages arrive whole and in order.
package protocol StreamHandler: AnyObject {
    /// Handles a message.
    func receive(_ message: ByteView) -> StreamReception
    /// Handles the results of another lane, after `StreamPort.wake`.
    func wake()
    /// Appends messages; called after `receive` and `wake` while the other side lets this one send.
    ///
    /// - Returns: `again` if there is more, `over` if the stream ends after the appended messages.
    func send(_ output: any StreamOutput) -> StreamProgress
    /// The stream is over. This is the last call.
    ///
    /// - Parameter reason: The end of a sentence, without a full stop; nil if one of the handlers has ended
    ///   the stream without one.
    func closed(_ reason: String?)
}

extension StreamHandler {
    package func wake() {}
}

/// Gets the messages of a stream.
package protocol StreamOutput: AnyObject {
    /// Bytes that may be sent in this turn; a message may exceed it.
    var room: Int { get }
    /// Bytes that the other side lets this one send, in this turn and later.
    var credit: Int { get }
    /// Appends a message, whose bytes `body` appends to the writer; what the writer has before stays.
    ///
    /// A body that appends nothing sends no message.
    func append(_ body: (ByteWriter) -> Void)
}
