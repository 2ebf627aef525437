internal import Seams
package import SyncWire

/// Waits until the client of a request reads more of its answer, and lets other requests continue.
final class AnswerFlow: @unchecked Sendable {  // tidy:allow belongs to the event loop
    /// Parts of an answer that are made without another request between: some milliseconds.
    private static let partsMax = 4

    private let exchange: GatewayExchange
    private let executor: LaneExecutor
    private var parts = 0
    private var waiter: UnsafeContinuation<Void, Never>?
    private var isWatchingEnd = false

    init(_ exchange: GatewayExchange, _ executor: LaneExecutor) {
        self.exchange = exchange
        self.executor = executor
    }

    /// Returns once the socket accepts more of the answer.
    ///
    /// - Throws: `Refusal` if the client is gone: the procedure ends, and its answer is dropped.
    func writable() async throws(Refusal) {
        parts += 1
        if parts.isMultiple(of: Self.partsMax) { await executor.yield() }
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
