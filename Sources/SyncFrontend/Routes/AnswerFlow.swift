package import SyncWire

/// Waits until the client of a request reads more of its answer.
final class AnswerFlow: @unchecked Sendable {  // tidy:allow belongs to the event loop
    private let exchange: GatewayExchange
    private var waiter: UnsafeContinuation<Void, Never>?
    private var isWatchingEnd = false

    init(_ exchange: GatewayExchange) {
        self.exchange = exchange
    }

    /// Returns once the socket accepts more of the answer.
    ///
    /// - Throws: `Refusal` if the client is gone: the procedure ends, and its answer is dropped.
    func writable() async throws(Refusal) {
        while !exchange.isClosed, !exchange.isWritable {
            if !isWatchingEnd {
                isWatchingEnd = true
                exchange.whenClosed { [weak self] in self?.resume() }
            }
            if exchange.isClosed { break }
            await withUnsafeContinuation { continuation in
                waiter = continuation
                exchange.whenWritable { [weak self] in self?.resume() }
            }
        }
        if exchange.isClosed { throw Refusal(400, "The client closed the connection") }
    }

    private func resume() {
        waiter?.resume()
        waiter = nil
    }
}

extension RouteCall {
    /// Returns once the socket accepts more of the answer: called before each part of a long one.
    ///
    /// - Throws: `Refusal` if the client is gone: the procedure ends, and its answer is dropped.
    package func writable() async throws(Refusal) { try await flow.writable() }
}
