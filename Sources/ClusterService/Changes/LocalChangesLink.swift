internal import Bytes
internal import Seams

/// A connection of an HTTP feed to the copies of its own node, without a socket.
///
/// A lane calls the handler as a reactor would: one call at a time, and never on the thread that wakes
/// it. The credit of the feed bounds what the handler sends.
final class LocalChangesLink: ChangesLink, ConnectionPort,
    @unchecked Sendable  // tidy:allow its inbox is locked, the rest belongs to the lane
{
    private struct Inbox {
        var bytes: [UInt8] = []
        var isScheduled = false
        var isClosed = false
    }

    let peer = SocketAddress(host: "127.0.0.1", port: 0)
    let local = SocketAddress(host: "127.0.0.1", port: 0)
    let reactor = 0
    private let lane: any Lane
    private let accept: ChangesAnswer
    private let report: @Sendable (ChangesLinkEvent) -> Void
    private let inbox = Guarded(Inbox())
    private var handler: (any ConnectionHandler)?
    private var input: [UInt8] = []
    private var isOver = false

    init(
        lane: any Lane,
        accept: @escaping ChangesAnswer,
        report: @escaping @Sendable (ChangesLinkEvent) -> Void
    ) {
        self.lane = lane
        self.accept = accept
        self.report = report
    }

    func send(_ frames: [UInt8]) { schedule { $0.bytes += frames } }

    func wake() { schedule { _ in } }

    func close() { schedule { $0.isClosed = true } }

    private func schedule(_ change: (inout Inbox) -> Void) {
        let isFirst = inbox.withLock { inbox in
            change(&inbox)
            defer { inbox.isScheduled = true }
            return !inbox.isScheduled
        }
        // The link lives until its handler is closed.
        if isFirst { lane.post { self.run() } }
    }

    // MARK: On the lane

    private func run() {
        let (bytes, isClosed) = inbox.withLock { inbox in
            inbox.isScheduled = false
            defer { inbox.bytes = [] }
            return (inbox.bytes, inbox.isClosed)
        }
        guard !isOver else { return }
        if isClosed { return end(nil) }
        let handler = self.handler ?? accept(self)
        self.handler = handler
        input += bytes
        let output = ByteWriter()
        let progress = input.withUnsafeBytes { handler.receive(ByteView($0), output: output) }
        input.removeFirst(progress.consumed)
        if output.count > 0 { report(.frames(output.bytes)) }
        switch progress.next {
        case .drain: wake()
        case .receive, .pause: break
        case .close: end("it ended the connection")
        }
    }

    private func end(_ reason: String?) {
        isOver = true
        handler?.closed()
        handler = nil
        input = []
        if let reason { report(.lost(reason)) }
    }
}
