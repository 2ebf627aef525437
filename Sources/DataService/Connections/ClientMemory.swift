internal import Bytes
internal import Engine
internal import Seams
internal import Vocabulary
internal import Wire

/// The memory of one connection besides its input, which the network bounds.
///
/// A connection may use `Limits.connectionBytes` for replies and for parked requests, whatever
/// other connections use. Above that it consults the node's `ConnectionMemory`; below it accesses
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

    /// Whether a document may be copied into a reply, once or several times.
    ///
    /// The memory of a reply is counted when its connection cannot send it, so replies may exceed
    /// the bound by one for each reactor.
    @inline(__always)
    func hasRoom(for item: Item, copies: Int = 1) -> Bool {
        item.valueCount * copies <= Limits.connectionBytes || !memory.isFullOfReplies
    }

    /// Answers a read that needs more memory for its reply than is free: the client retries.
    func answerNoReplyMemory(_ request: CommandContext) {
        bucket?.counters.count(.temporaryFailures, row: context.row)
        answer(
            .temporaryFailure,
            request,
            "Replies that clients have not read fill the node's memory for them. Retry."
        )
    }

    /// Whether a command that changes a document and replies with it is refused before it is
    /// executed, since the size of its reply is unknown.
    ///
    /// Answers it if so.
    func refusesReadingChange(_ request: CommandContext) -> Bool {
        guard memory.isFullOfReplies else { return false }
        answerNoReplyMemory(request)
        return true
    }

    // MARK: Parked requests

    /// Whether the connection may keep this many bytes of parked requests in total.
    func mayPark(bytes: Int) -> Bool {
        bytes <= Limits.connectionBytes || bytes <= Limits.parkedBytesMax && !memory.isFullOfParked
    }

    /// Updates the node's count of bytes in parked requests.
    func countParked(_ bytes: Int, before: Int) {
        let shared = max(0, bytes - Limits.connectionBytes)
        let change = shared - max(0, before - Limits.connectionBytes)
        if change != 0 { memory.countParked(change) }
    }
}
