internal import Bytes
internal import Seams
internal import Wire

/// A sender of changes on a client's connection: `ClientProducer` or `TapProducer`.
protocol ChangeSender: AnyObject {
    /// Ends all streams without a message: the connection closes, or its login or bucket changed.
    func end()
    /// Ends all streams because the client may no longer receive changes.
    ///
    /// - Returns: Whether the connection stays open.
    func revoke(_ output: ByteWriter) -> Bool
    /// Handles the events of other lanes.
    ///
    /// - Returns: Why the connection has to close; nil if it stays open.
    func handleEvents(_ output: ByteWriter) -> SenderEnd?
    /// Appends changes while the output has room.
    ///
    /// - Returns: Whether there are more that wait for the output to be sent.
    func pump(_ output: ByteWriter) -> Bool
}

/// Why a connection that sends changes closes.
enum SenderEnd: Hashable, Sendable {
    /// The client did not answer a no-op in time.
    case silent
    /// The requested changes cannot be sent to their end.
    case interrupted
    /// The bucket was deleted or flushed.
    case retired
    /// Everything that was requested was sent.
    case finished
}

extension Connection {
    /// Sends changes after the requests of a turn, while the output has room.
    func sendChanges(_ progress: ReceiveProgress) -> ReceiveProgress {
        guard progress.next != .close, let sender = pushes.sender else { return progress }
        if !mayStream, !sender.revoke(output) {
            service.environment.trace.info(
                "data",
                "Closing the connection of \(port.peer): its user may no longer receive changes."
            )
            return ReceiveProgress(consumed: progress.consumed, next: .close)
        }
        if progress.next == .pause { producer?.postponeNoopEnd() }
        if let end = sender.handleEvents(output) {
            if end == .silent {
                service.environment.trace.info(
                    "data",
                    "Closing the connection of \(port.peer): it answered no no-op."
                )
            }
            return ReceiveProgress(consumed: progress.consumed, next: .close)
        }
        guard progress.next != .drain, sender.pump(output) else { return progress }
        return ReceiveProgress(consumed: progress.consumed, next: .drain)
    }

    /// Handles a response of the client to a message of its streams.
    func recordAnswer(_ frame: Frame) {
        switch frame.opcode {
        case .dcpNoop: _ = producer?.answersNoop(frame.opaque)
        case .tapMutation, .tapDelete: (pushes.sender as? TapProducer)?.acknowledge()
        default: break
        }
    }

    /// Ends the streams: the connection closes, or its login or bucket has changed.
    func endSender() {
        pushes.sender?.end()
        pushes.sender = nil
    }
}
