internal import Bytes
internal import Engine
internal import Seams
internal import Vocabulary
internal import Wire

/// What one connection may keep in memory besides its input, which the network bounds.
///
/// A connection keeps `Limits.connectionBytes` of replies and of parked requests, whatever other
/// connections keep. Beyond them it asks the node's `ConnectionMemory`; what stays below them touches
/// nothing that connections share.
extension Connection {
    private var memory: ConnectionMemory { service.environment.network.memory }

    // MARK: Replies

    /// Whether the client has to read replies before more requests are executed.
    @inline(__always)
    var isOutputFull: Bool { output.count >= Limits.connectionBytes && isLargeOutputFull }

    private var isLargeOutputFull: Bool {
        output.count >= Limits.repliesBytesMax || memory.isFullOfReplies
    }

    /// Whether a document may be copied into a reply.
    ///
    /// The memory of a reply is counted when its connection cannot send it, so replies go beyond the
    /// bound by one for each reactor.
    @inline(__always)
    func hasRoom(for item: Item) -> Bool {
        item.valueCount <= Limits.connectionBytes || !memory.isFullOfReplies
    }

    /// Answers a read that needs more memory for its reply than there is: the client tries again.
    func answerNoReplyMemory(_ exchange: Exchange) {
        bucket?.counters.count(.temporaryFailures, row: context.row)
        answer(
            .temporaryFailure,
            to: exchange.replyTo,
            because: "Replies that clients have not read fill the node's memory for them. Retry."
        )
    }

    /// Whether a command that changes a document and replies with it has to be refused before it
    /// is executed, as the size of its reply is not known.
    func refusesReadingChange(_ exchange: Exchange) -> Bool {
        guard memory.isFullOfReplies else { return false }
        answerNoReplyMemory(exchange)
        return true
    }

    // MARK: Parked requests

    /// Whether the connection may keep so many bytes of parked requests in all.
    func mayPark(bytes: Int) -> Bool {
        bytes <= Limits.connectionBytes || bytes <= Limits.parkedBytesMax && !memory.isFullOfParked
    }

    /// Counts what parked requests take of the node's memory.
    func countParked(_ bytes: Int, before: Int) {
        let shared = max(0, bytes - Limits.connectionBytes)
        let change = shared - max(0, before - Limits.connectionBytes)
        if change != 0 { memory.countParked(change) }
    }
}
