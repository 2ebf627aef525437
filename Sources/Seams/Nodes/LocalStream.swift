package import Bytes
package import Vocabulary

/// A stream whose two ends are in this process: a lane calls both handlers, as a reactor would.
package final class LocalStream: StreamPort,
    @unchecked Sendable  // tidy:allow its requests are locked, the rest belongs to the lane
{
    private struct Requests {
        var isScheduled = false
        var isWoken = false
        var isEnded = false
        var reason: String?
        var released = 0
    }

    package let node: NodeNumber
    package let reactor = 0
    private let lane: any Lane
    private let requests = Guarded(Requests())
    private var other: LocalStream?
    private var handler: (any StreamHandler)?
    private var inbox: [[UInt8]] = []
    private var isPaused = false
    /// Whether the other end is over, after the messages in `inbox`.
    private var isLast = false
    /// Bytes that the handler may send.
    private var credit: Int

    private init(of node: NodeNumber, windowBytes: Int, lane: any Lane) {
        self.node = node
        self.lane = lane
        credit = windowBytes
    }

    /// Opens a stream and reports it as `NodeStreams.open` does, on the lane.
    ///
    /// - Parameters:
    ///   - service: The service, whose window bounds what either end sends.
    ///   - nodes: The node that opens the stream and the one that accepts it.
    ///   - lane: Calls both handlers.
    ///   - request: The request.
    ///   - accept: Makes the handler of the other end; nil refuses the stream.
    ///   - opened: Makes the handler of this end.
    package static func open(
        _ service: NodeService,
        between nodes: (opening: NodeNumber, accepting: NodeNumber),
        on lane: any Lane,
        request: [UInt8],
        accept: @escaping @Sendable (any StreamPort, ByteView) -> (any StreamHandler)?,
        opened: @escaping @Sendable (any StreamPort) -> any StreamHandler
    ) {
        let window = service.row.windowBytes
        let near = LocalStream(of: nodes.accepting, windowBytes: window, lane: lane)
        let far = LocalStream(of: nodes.opening, windowBytes: window, lane: lane)
        (near.other, far.other) = (far, near)
        lane.post {
            near.handler = opened(near)
            far.handler = request.withUnsafeBytes { accept(far, ByteView($0)) }
            if far.handler == nil { near.finish("it does not serve the stream") }
            near.wake()
            far.wake()
        }
    }

    // MARK: StreamPort

    package func wake() { schedule { $0.isWoken = true } }

    package func end(_ reason: String?) {
        schedule { requests in
            if !requests.isEnded { requests.reason = reason }
            requests.isEnded = true
        }
    }

    package func release(_ bytes: Int) { schedule { $0.released += bytes } }

    private func schedule(_ change: (inout Requests) -> Void) {
        let isFirst = requests.withLock { requests in
            change(&requests)
            return !exchange(&requests.isScheduled, with: true)
        }
        if isFirst { lane.post { self.run() } }
    }

    // MARK: On the lane

    private func run() {
        let asked = requests.withLock { requests in
            let asked = requests
            (requests.isScheduled, requests.isWoken, requests.released) = (false, false, 0)
            return asked
        }
        guard handler != nil else { return }
        if asked.isEnded { return finish(asked.reason) }
        consumed(asked.released)
        if asked.isWoken {
            isPaused = false
            handler?.wake()
        }
        deliver()
        send()
    }

    private func deliver() {
        var count = 0
        while !isPaused, count < inbox.count, let handler {
            let message = inbox[count]
            switch message.withUnsafeBytes({ handler.receive(ByteView($0)) }) {
            case .handled: consumed(message.count)
            case .kept: break
            case .paused:
                isPaused = true
                continue
            case .invalid(let flaw): return finish("it sent \(flaw)")
            }
            count += 1
        }
        inbox.removeFirst(min(count, inbox.count))
        if isLast, inbox.isEmpty { finish(nil) }
    }

    /// Lets the other end send as many bytes more.
    private func consumed(_ bytes: Int) {
        guard bytes > 0, let other else { return }
        other.credit += bytes
        other.schedule { _ in }
    }

    private func send() {
        guard let handler, let other, credit > 0 else { return }
        let output = LocalOutput(credit: credit)
        let progress = handler.send(output)
        if !output.messages.isEmpty {
            other.inbox += output.messages
            credit -= output.messages.reduce(0) { $0 + $1.count }
            other.schedule { _ in }
        }
        switch progress {
        case .again: schedule { _ in }
        case .asleep, .awaitsCredit: break
        case .over:
            self.handler = nil
            self.other = nil
            other.isLast = true
            other.other = nil
            other.schedule { _ in }
            handler.closed(nil)
        }
    }

    private func finish(_ reason: String?) {
        guard let handler else { return }
        self.handler = nil
        inbox = []
        let other = other
        self.other = nil
        handler.closed(reason)
        other?.finish(reason)
    }
}

/// The messages of one turn.
private final class LocalOutput: StreamOutput {
    private(set) var credit: Int
    private(set) var room: Int
    private(set) var messages: [[UInt8]] = []

    init(credit: Int) {
        self.credit = credit
        room = min(credit, NodeStreamLimits.turnBytes)
    }

    func append(_ body: (ByteWriter) -> Void) {
        let writer = ByteWriter()
        body(writer)
        guard writer.count > 0 else { return }
        messages.append(writer.bytes)
        credit = max(0, credit - writer.count)
        room = max(0, room - writer.count)
    }
}
