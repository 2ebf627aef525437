package import Bytes

/// What happens to a WebSocket.
package enum WebSocketEvent {
    /// The handshake was answered: the first event.
    case opened
    /// A whole text message, in valid UTF-8; borrowed.
    case text(ByteView)
    /// A whole binary message; borrowed.
    case binary(ByteView)
    /// The socket can be written again after `isWritable` was false.
    case writable
    /// The last event: after a close handshake, an error or the loss of the connection.
    case closed
}

/// skeleton
package final class WebSocketConnection: @unchecked Sendable {  // tidy:allow belongs to its event loop
    package var isWritable: Bool { true }
    package var isClosed: Bool { true }
    package func send(text: ByteView) {}
    package func send(binary: ByteView) {}
    package func close(code: UInt16 = 1_000, reason: String = "") {}
    package func pause() {}
    package func resume() {}
}
