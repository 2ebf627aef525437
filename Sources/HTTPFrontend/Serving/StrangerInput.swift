/// How much of a connection's input is received before its client has logged in.
///
/// The socket is read in small pieces until the login. The body of a request is not read before the
/// request is admitted or answered: the login is in its head.
package struct StrangerInput {
    /// Whether a request has begun whose end has not arrived.
    package private(set) var isReading = false
    /// Whether the socket is read in small pieces.
    package private(set) var receivesLittle: Bool
    private var isHeld = false
    /// Whether the channel was asked to read while the body was held.
    private var isReadOwed = false

    /// - Parameter isStranger: Whether the client has to log in.
    package init(isStranger: Bool) {
        receivesLittle = isStranger
    }

    /// The head of a request has arrived.
    package mutating func beginRequest() {
        isReading = true
        isHeld = receivesLittle
    }

    /// The end of a request has arrived.
    package mutating func endRequest() { isReading = false }

    /// Whether the socket may be read; if not, `release` returns that it was to be read.
    package mutating func mayRead() -> Bool {
        guard isHeld, isReading else { return true }
        isReadOwed = true
        return false
    }

    /// The request was admitted, or its response begins.
    ///
    /// - Returns: Whether the socket has to be read now.
    package mutating func release() -> Bool {
        defer { isReadOwed = false }
        isHeld = false
        return isReadOwed
    }

    /// The client has logged in.
    ///
    /// - Returns: Whether the socket was read in small pieces until now.
    package mutating func recordLogin() -> Bool {
        defer { receivesLittle = false }
        return receivesLittle
    }
}
