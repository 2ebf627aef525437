internal import Bytes

/// Whether a connection is closed, and whether a request on it ends with the connection.
///
/// Most requests continue when their client disconnects: a change that was requested is carried out. A view
/// query is an exception: it changes nothing, and may wait for long. It keeps an `Interest` in its
/// connection, whose task is cancelled when the connection closes meanwhile (`PortChannel`).
///
/// - For the server a closed connection is open until it writes: `ConnectionLifetime` probes the connection
///   of a client that shut down its side.
final class ConnectionWatch: Sendable {
    /// The watch of the connection whose requests the current task handles.
    @TaskLocal static var current: ConnectionWatch?

    private struct State {
        var isClosed = false
        var interestCount = 0
        var prepared: Router.Prepared?
    }

    private let state = Guarded(State())
    /// The proof that the connection's client has given.
    let login: ConnectionLogin?
    /// Nil if the connection is plain.
    let secured: SecuredConnection?

    init(login: ConnectionLogin? = nil, secured: SecuredConnection? = nil) {
        self.login = login
        self.secured = secured
    }

    /// Whether a request ends with the connection.
    var isWatched: Bool { state.withLock { $0.interestCount > 0 } }

    /// Begins to watch the connection for a request; nil if the connection is closed already.
    func beginWatching() -> Interest? {
        let isOpen = state.withLock { state -> Bool in
            guard !state.isClosed else { return false }
            state.interestCount += 1
            return true
        }
        return isOpen ? Interest(self) : nil
    }

    /// Records that the connection is closed; returns whether a request ends with it.
    func close() -> Bool {
        removePrepared()
        return state.withLock { state in
            state.isClosed = true
            return state.interestCount > 0
        }
    }

    /// Passes what `PromptResponder` did for a request to the framework's handling of that request.
    ///
    /// At that moment the framework has no other request of the connection, so it is the next one.
    func pass(_ prepared: Router.Prepared) { state.withLock { $0.prepared = prepared } }

    /// Removes and returns the prepared state of the framework's present request; nil if there is none.
    @discardableResult
    func removePrepared() -> Router.Prepared? {
        state.withLock { state in
            defer { state.prepared = nil }
            return state.prepared
        }
    }

    private func endWatching() { state.withLock { $0.interestCount -= 1 } }

    /// The interest of one request; it ends when the last reference to it is gone.
    final class Interest: Sendable {
        private let watch: ConnectionWatch

        fileprivate init(_ watch: ConnectionWatch) {
            self.watch = watch
        }

        deinit { watch.endWatching() }
    }
}
