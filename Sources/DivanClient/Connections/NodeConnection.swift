internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// A connection to one node, on both its sides: the reactor's, where the machine runs, and the
/// client's lane, which hands requests in and hears of events.
///
/// - The machine belongs to the reactor; between the two sides there is the inbox, under its lock.
/// - Events come in the order in which they happened, and `lost` is the last, exactly once.
/// - A request counts as having left once the machine has turned it into bytes: whether the kernel
///   took them, let alone the server, nobody can say.
final class NodeConnection: ConnectionHandler,
    @unchecked Sendable  // tidy:allow the machine is the reactor's, the inbox has a lock
{
    enum Event: Sendable {
        case machine(ConnectionMachine.Event)
        /// Requests that have no answer were sent, but for those named.
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

    /// Bytes handed over at a time: a deep queue of large values must not pile up in one buffer.
    private static let outputBytesMax = 256 << 10

    private let inbox = Guarded(Inbox())
    private let tell: @Sendable (NodeConnection, [Event]) -> Void
    // The reactor's.
    private var machine: ConnectionMachine
    private let decoder = FrameDecoder()
    private var hasBegun = false
    private var reason = "the connection ended"

    init(
        _ login: Handshake.Login,
        nonce: String,
        tell: @escaping @Sendable (NodeConnection, [Event]) -> Void
    ) {
        machine = ConnectionMachine(login, nonce: nonce)
        self.tell = tell
    }

    // MARK: The lane's side

    /// Begins to connect, to the first address of the host that answers.
    func open(_ address: SocketAddress, _ network: any Network) {
        network.resolve(address.host) { [self] result in
            switch result {
            case .failure(let error): tell(self, [.lost(reason: error.description, unsent: [])])
            case .success(let hosts): open(hosts[...], port: address.port, network)
            }
        }
    }

    private func open(_ hosts: ArraySlice<String>, port: UInt16, _ network: any Network) {
        guard let host = hosts.first, !inbox.withLock({ $0.isClosed }) else {
            return tell(self, [.lost(reason: "no address to connect to", unsent: [])])
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
                tell(self, [.lost(reason: error.description, unsent: [])])
            }
        )
    }

    func send(_ outgoing: Outgoing) {
        let port = inbox.withLock { inbox in
            inbox.outgoing.append(outgoing)
            // The reactor has been told of what was there before.
            return inbox.outgoing.count == 1 ? inbox.port : nil
        }
        port?.wake()
    }

    /// Takes a request back; false where it has left.
    func withdraw(_ ticket: UInt64) -> Bool {
        inbox.withLock { inbox in
            guard let index = inbox.outgoing.firstIndex(where: { $0.ticket == ticket }) else {
                return false
            }
            inbox.outgoing.remove(at: index)
            return true
        }
    }

    /// Hangs up; `lost` follows.
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
        func note(_ event: ConnectionMachine.Event?) {
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
            case .valueTooBig, .nonsense: note(machine.takeNonsense())
            case .frame(let frame):
                note(machine.take(frame, output))
                offset += frame.byteCount
            }
        }
        if !events.isEmpty { tell(self, events) }
        if hasFailed { return ReceiveProgress(consumed: input.count, next: .close) }
        let hasMore = machine.isReady && sendWaiting(output)
        return ReceiveProgress(
            consumed: offset,
            next: hasMore ? .drain : .receive,
            needed: hasMore ? 0 : needed
        )
    }

    /// Sends what waits, up to a buffer full; true where something is left.
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

    func closed() {
        let unsent = inbox.withLock { inbox in
            inbox.isClosed = true
            inbox.port = nil
            defer { inbox.outgoing = [] }
            return Set(inbox.outgoing.map(\.ticket))
        }
        tell(self, [.lost(reason: reason, unsent: unsent)])
    }
}
