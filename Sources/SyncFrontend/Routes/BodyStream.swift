internal import Bytes
internal import SyncWire

/// The body of a request, which a procedure reads part by part.
///
/// The socket is not read while a part waits for the procedure, so that memory has two parts at most.
final class BodyStream: @unchecked Sendable {  // tidy:allow belongs to the event loop
    /// A part that is not larger waits for more bytes.
    private static let partBytesMin = 64 << 10

    private let exchange: GatewayExchange
    private var arrived = ByteWriter()
    private var part = ByteWriter()
    private var isPaused = false
    private var hasEnded = false
    private var refusal: Refusal?
    private var waiter: UnsafeContinuation<Void, Never>?

    init(_ exchange: GatewayExchange) {
        self.exchange = exchange
        exchange.streamBody { [self] (bytes) throws(Refusal) in
            arrived.append(bytes)
            if arrived.count >= Self.partBytesMin {
                isPaused = true
                exchange.pauseBody()
            }
            resume()
        } _: { [self] refusal in
            hasEnded = true
            self.refusal = refusal
            resume()
        }
    }

    /// Accounts for what the procedure keeps of the body.
    ///
    /// - Throws: `Refusal` 503 if all requests together keep too much.
    func keep(_ bytes: Int) throws(Refusal) { try exchange.keepBody(bytes) }

    /// The next part, which is valid until the next call; nil at the end.
    ///
    /// - Throws: `Refusal` if the body is incomplete or invalid.
    func next() async throws(Refusal) -> ByteWriter? {
        while true {
            if let refusal { throw refusal }
            if !arrived.view.isEmpty {
                part.removeAll()
                swap(&arrived, &part)
                return part
            }
            if hasEnded { return nil }
            if isPaused {
                isPaused = false
                exchange.resumeBody()
                continue
            }
            await withUnsafeContinuation { waiter = $0 }
        }
    }

    private func resume() {
        waiter?.resume()
        waiter = nil
    }
}
