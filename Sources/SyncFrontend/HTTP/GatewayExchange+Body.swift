package import Bytes
package import SyncWire

extension GatewayExchange {
    /// Collects the body, inflated if the client sent it as gzip.
    ///
    /// - Parameters:
    ///   - bytesMax: A longer body is refused.
    ///   - done: Called once, possibly at once: with the bytes, which then belong to the handler, or with why there
    ///     are none: 413, 400, 503. The handler answers.
    package func readBody(
        atMost bytesMax: Int,
        _ done: @escaping (Result<ByteWriter, Refusal>) -> Void
    ) {
        connection.checkLoop()
        guard let body else { return done(.success(ByteWriter(capacity: 16))) }
        if isClosed { return done(.failure(Refusal(400, "The client closed the connection"))) }
        // A compressed body is at least as large when it is inflated; a wrong claim is found later.
        if let length = request.header("Content-Length").flatMap({ Int($0) }), length > bytesMax {
            body.drain()
            let refusal = Refusal(413, "The request's body has more than \(bytesMax) bytes")
            return done(.failure(refusal))
        }
        body.collect(atMost: bytesMax, done)
        connection.continueBody()
    }

    /// Passes the body as it arrives, inflated if the client sent it as gzip.
    ///
    /// - Parameters:
    ///   - consume: Called with each part, which is borrowed; a refusal that it throws ends the body.
    ///   - done: Called once: with nil behind the last part, or with why there are no further ones. The handler
    ///     answers.
    package func streamBody(
        _ consume: @escaping (ByteView) throws(Refusal) -> Void,
        _ done: @escaping (Refusal?) -> Void
    ) {
        connection.checkLoop()
        guard let body else { return done(nil) }
        if isClosed { return done(Refusal(400, "The client closed the connection")) }
        body.stream(consume, done)
        connection.continueBody()
    }

    /// Accounts for the bytes that a handler keeps of a streamed body, until the answer: the bound of collected
    /// bodies counts for both.
    ///
    /// - Throws: `Refusal` 503 if all requests together keep too much.
    package func keepBody(_ bytes: Int) throws(Refusal) {
        connection.checkLoop()
        if !isClosed { try body?.keep(bytes) }
    }

    /// Stops the calls of `consume`, and the receiving of more than a socket's buffer.
    package func pauseBody() {
        connection.checkLoop()
        body?.pause()
    }

    /// Continues after `pauseBody`.
    package func resumeBody() {
        connection.checkLoop()
        body?.resume()
        connection.continueBody()
    }
}
