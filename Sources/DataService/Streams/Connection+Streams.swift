internal import Bytes
internal import Seams

extension Connection {
    /// Sends changes after the requests of a turn, while the output has room.
    func sendChanges(_ progress: ReceiveProgress) -> ReceiveProgress {
        guard progress.next != .close, let producer else { return progress }
        guard producer.handleEvents(output) else {
            service.environment.trace.info(
                "data",
                "Closing the connection of \(port.peer): it answered no DCP_NOOP."
            )
            return ReceiveProgress(consumed: progress.consumed, next: .close)
        }
        guard progress.next != .drain, producer.pump(output) else { return progress }
        return ReceiveProgress(consumed: progress.consumed, next: .drain)
    }

    /// Ends the streams: the connection closes, or its login or bucket has changed.
    func endProducer() {
        producer?.end()
        producer = nil
    }
}
