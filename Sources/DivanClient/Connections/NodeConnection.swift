internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// A connection to one node, with two sides: the reactor, which runs the machine, and the client's
/// lane, which passes requests in and receives events.
///
/// - The machine belongs to the reactor. The inbox connects the two sides, under its lock.
/// - Events are reported in order. `lost` is the last one, exactly once.
/// - A request counts as sent once the machine has encoded it. Whether the kernel or the server has
///   received it is unknown.
final class NodeConnection: ConnectionHandler,
    @unchecked Sendable  // tidy:allow the machine is the reactor's, the inbox has a lock
{
    enum Event: Sendable {
        case machine(ConnectionMachine.Event)
        /// The connection ended. Of the unanswered requests, all but `unsent` were sent.
        case lost(reason: String, unsent: Set<UInt64>)
    }

    struct Outgoing: Sendable {
        let ticket: UInt64
        let vBucket: VBucketID
        let request: Request
    }

    private struct Inbox {
        var port: (any ConnectionPort)?
        var outgoing: [Outgoing] = []
        var isClosed = false
    }

    /// Bytes encoded at a time, so that a long queue of large values does not fill one buffer.
    private static let outputBytesMax = 256 << 10

    private let inbox = Guarded(Inbox())
    private let report: @Sendable (NodeConnection, [Event]) -> Void
    // The following belong to the reactor.
    private var machine: ConnectionMachine
    private let decoder = FrameDecoder()
    private var hasBegun = false
    private var reason = "the connection ended"

    init(
        _ login: Handshake.Login,
        nonce: String,
        report: @escaping @Sendable (NodeConnection, [Event]) -> Void
    ) {
        machine = ConnectionMachine(login, nonce: nonce)
        self.report = report
    }

    // MARK: The lane's side

    /// Starts to connect, to the first address of the host that accepts.
    func open(_ address: SocketAddress, _ network: any Network) {
        network.resolve(address.host) { [self] result in
            switch result {
            case .failure(let error): report(self, [.lost(reason: error.description, unsent: [])])
            case .success(let hosts): open(hosts[...], port: address.port, network)
            }
        }
    }

    private func open(_ hosts: ArraySlice<String>, port: UInt16, _ network: any Network) {
        guard let host = hosts.first, !inbox.withLock({ $0.isClosed }) else {
            return report(self, [.lost(reason: "no address to connect to", unsent: [])])
        }
        network.connect(
            to: SocketAddress(host: host, port: port),
            connected: { [self] port in
                let isClosed = inbox.withLock { inbox in
                    inbox.port = port
                    return inbox.isClosed
                }
                if isClosed { port.close() } else { port.wake() }
                return self
            },
            failed: { [self] error in
                if hosts.count > 1 { return open(hosts.dropFirst(), port: port, network) }
                report(self, [.lost(reason: error.description, unsent: [])])
            }
        )
    }

    func send(_ outgoing: Outgoing) {
        let port = inbox.withLock { inbox in
            inbox.outgoing.append(outgoing)
            // If there were others before, the reactor has been woken already.
            return inbox.outgoing.count == 1 ? inbox.port : nil
        }
        port?.wake()
    }

    /// Withdraws a request; false if it was sent.
    func withdraw(_ ticket: UInt64) -> Bool {
        inbox.withLock { inbox in
            guard let index = inbox.outgoing.firstIndex(where: { $0.ticket == ticket }) else {
                return false
            }
            inbox.outgoing.remove(at: index)
            return true
        }
    }

    /// Closes the connection; `lost` follows.
    func close() {
        let port = inbox.withLock { inbox in
            inbox.isClosed = true
            return inbox.port
        }
        port?.close()
    }

    // MARK: The reactor's side

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if !hasBegun {
            hasBegun = true
            machine.begin(output)
        }
        return receive(input, output: output)
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        var (offset, needed) = (0, 0)
        var events: [Event] = []
        var hasFailed = false
        func add(_ event: ConnectionMachine.Event?) {
            guard let event else { return }
            events.append(.machine(event))
            guard case .failed(let failure) = event else { return }
            hasFailed = true
            reason = failure.description
        }
        decoding: while !hasFailed {
            switch decoder.next(in: input.dropFirst(offset)) {
            case .incomplete(let count):
                needed = count
                break decoding
            case .valueTooBig, .invalid: add(machine.handleInvalidFrame())
            case .frame(let frame):
                add(machine.handle(frame, output))
                offset += frame.byteCount
            }
        }
        if !events.isEmpty { report(self, events) }
        if hasFailed { return ReceiveProgress(consumed: input.count, next: .close) }
        let hasMore = machine.isReady && sendWaiting(output)
        return ReceiveProgress(
            consumed: offset,
            next: hasMore ? .drain : .receive,
            needed: hasMore ? 0 : needed
        )
    }

    /// Sends waiting requests, until the buffer is full; true if some are left.
    private func sendWaiting(_ output: ByteWriter) -> Bool {
        inbox.withLock { inbox in
            var count = 0
            for outgoing in inbox.outgoing {
                guard output.count < NodeConnection.outputBytesMax else { break }
                machine.send(
                    outgoing.request,
                    vBucket: outgoing.vBucket,
                    ticket: outgoing.ticket,
                    output
                )
                count += 1
            }
            inbox.outgoing.removeFirst(count)
            return !inbox.outgoing.isEmpty
        }
    }

    func broken(_ reason: String) { self.reason = reason }

    func closed() {
        let unsent = inbox.withLock { inbox in
            inbox.isClosed = true
            inbox.port = nil
            return Set(exchange(&inbox.outgoing, with: []).map(\.ticket))
        }
        report(self, [.lost(reason: reason, unsent: unsent)])
    }
}
