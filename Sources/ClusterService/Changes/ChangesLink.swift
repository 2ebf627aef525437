internal import Bytes
internal import Seams
internal import Vocabulary

/// The stream of an HTTP feed to one node.
///
/// The bytes of reported messages are released by the feed, as it consumes them.
final class ChangesLink: StreamHandler, Sendable {
    enum Event: Sendable {
        case message([UInt8])
        /// The text has no full stop, as it becomes the end of a sentence.
        case lost(String)
    }

    private struct State {
        var port: (any StreamPort)?
        var unsent: [UInt8] = []
        var isClosed = false
    }

    let node: NodeNumber
    private let report: @Sendable (ChangesLink, Event) -> Void
    private let state = Guarded(State())

    init(to node: NodeNumber, report: @escaping @Sendable (ChangesLink, Event) -> Void) {
        self.node = node
        self.report = report
    }

    /// The stream is open.
    func attach(_ port: any StreamPort) {
        let isClosed = state.withLock { state in
            state.port = port
            return state.isClosed
        }
        if isClosed { port.end(nil) } else { port.wake() }
    }

    /// Sends records; without effect once the link is closed.
    func send(_ records: [UInt8]) {
        let port = state.withLock { state in
            if !state.isClosed { state.unsent += records }
            return state.port
        }
        port?.wake()
    }

    /// The feed has consumed so many bytes of messages.
    func release(_ bytes: Int) { state.withLock { $0.port }?.release(bytes) }

    /// Ends the stream; nothing is reported after that, except what is under way.
    func close() {
        let port = state.withLock { state in
            state.isClosed = true
            return state.port
        }
        port?.end(nil)
    }

    // MARK: StreamHandler

    func receive(_ message: ByteView) -> StreamReception {
        report(self, .message(message.bytes))
        return .kept
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        let unsent = state.withLock { state in
            defer { state.unsent = [] }
            return state.unsent
        }
        if !unsent.isEmpty { output.append { $0.append(unsent) } }
        return .asleep
    }

    func closed(_ reason: String?) {
        let wasClosed = state.withLock { state in
            defer { state = State(isClosed: true) }
            return state.isClosed
        }
        if !wasClosed { report(self, .lost(reason ?? "it ended the stream")) }
    }
}
