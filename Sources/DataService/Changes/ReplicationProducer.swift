internal import Bytes
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// Sends the changes of this node's active copies to one other node, all buckets on one connection.
///
/// Streams are served round-robin by bytes. The unacknowledged bytes of a bucket are bounded by its
/// window. Each stream is a `VBucketFeed` in replication mode.
///
/// - A stream belongs to a fence and ends with the next one.
/// - Acknowledgements count only on the connection on which they arrived.
final class ReplicationProducer: ConnectionHandler {
    enum Event: Sendable {
        /// The feed of this stream may have work.
        case news(NodeStreamAddress, ticket: UInt64)
        /// A new map was applied; held requests may wait for it.
        case map
        /// The pacer may have room.
        case room
        case tick
    }

    /// A bucket that the other node opened.
    struct Channel {
        let uuid: String
        /// Its window in the pump.
        let window: Int
    }

    /// A request of a fence that is newer than this node's map.
    struct Held {
        let address: NodeStreamAddress
        let request: DCPStreamRequest
        let fence: UInt64
        let number: UInt64
        let deadline: UInt64
    }

    private static let heldMax = 1 << 14
    private static let tickNanoseconds: UInt64 = 500_000_000

    let peer: NodeNumber
    let service: DocumentService
    let events: EventQueue<Event>
    private let port: any ConnectionPort
    var channels: [UInt16: Channel] = [:]
    let feeds = FeedPump<NodeStreamAddress, OutgoingStream>()
    /// Streams that wait for the pacer's room.
    private var awaitingRoom: [OutgoingStream] = []
    var held: [Held] = []
    private let mapListener: UInt64
    private var receivedAt: UInt64
    private var ticks: UInt64 = 0
    private var tickedAt: UInt64
    private let decoder = NodeStreamMessage.decoder
    /// The vBuckets of which acknowledgements are recorded, including those of ended streams;
    /// discarded when the connection closes.
    private var started: Set<NodeStreamAddress> = []

    init(peer: NodeNumber, port: any ConnectionPort, service: DocumentService) {
        self.peer = peer
        self.port = port
        self.service = service
        let events = EventQueue<Event>(port: port)
        self.events = events
        receivedAt = service.environment.time.monotonicNanoseconds()
        tickedAt = receivedAt
        mapListener = service.listenToMaps { events.put(.map) }
        postTick()
    }

    /// Identifies this connection: the acknowledgements of a node's newest connection count.
    private var link: UInt64 { mapListener }

    var now: UInt64 { service.environment.time.monotonicNanoseconds() }

    // MARK: ConnectionHandler

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if !input.isEmpty { receivedAt = now }
        var offset = 0
        while true {
            switch decoder.next(in: input.dropFirst(offset)) {
            case .frame(let frame):
                guard handle(frame, output) else {
                    service.environment.trace.error(
                        "replication",
                        "Closing connection to node \(peer): invalid frame."
                    )
                    return ReceiveProgress(consumed: input.count, next: .close)
                }
                offset += frame.byteCount
            case .incomplete(let needed): return pump(output, consumed: offset, needed: needed)
            case .valueTooBig, .invalid:
                return ReceiveProgress(consumed: input.count, next: .close)
            }
        }
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        for event in events.drain() {
            guard handle(event, output) else {
                return ReceiveProgress(consumed: 0, next: .close)
            }
        }
        return receive(input, output: output)
    }

    func closed() {
        feeds.removeAll()
        for address in started {
            guard let uuid = channels[address.channel]?.uuid else { continue }
            service.bucket(uuid: uuid)?.traffic.forget(peer, address.vBucket, link: link)
        }
        awaitingRoom = []
        held = []
        service.stopListeningToMaps(mapListener)
    }

    // MARK: Frames

    private func handle(_ frame: Frame, _ output: ByteWriter) -> Bool {
        guard let message = NodeStreamMessage(frame) else { return false }
        let address = NodeStreamAddress(opaque: frame.opaque)
        switch message {
        case .openChannel(let bucket): openChannel(address, bucket.text, frame, output)
        case .streamRequest(let request, let fence):
            let number = frame.cas.value
            if let answer = answer(address, request, fence, number) {
                NodeStreamEncoder.append(answer, to: number, at: address, to: output)
            }
        case .closeStream: close(address)
        case .acknowledgement(let progress):
            guard let uuid = channels[address.channel]?.uuid else { return true }
            service.bucket(uuid: uuid)?.traffic
                .note(progress, of: address.vBucket, on: peer, link: link)
        case .changes(.bufferAcknowledgement(let bytes)):
            guard let channel = channels[address.channel] else { return true }
            return feeds.machine.acknowledge(Int(bytes), window: channel.window)
        case .changes(.noop): break
        case .changes, .outstanding, .purge: return false
        }
        return true
    }

    private func openChannel(
        _ address: NodeStreamAddress,
        _ uuid: String,
        _ frame: Frame,
        _ output: ByteWriter
    ) {
        let isThere = service.bucket(uuid: uuid) != nil
        if isThere {
            let window = channels[address.channel]?.window
            if let window { feeds.machine.renewWindow(window) }
            channels[address.channel] = Channel(
                uuid: uuid,
                window: window
                    ?? feeds.machine.addWindow(bytesMax: Limits.replicationWindowBytes)
            )
        }
        ResponseEncoder.append(
            isThere ? .success : .keyNotFound,
            to: output,
            replyTo: frame.replyTo
        )
    }

    func close(_ address: NodeStreamAddress) {
        held.removeAll { $0.address == address }
        feeds.remove(address)
    }

    /// Holds a request until the map of its fence arrives.
    ///
    /// - Returns: False if too many requests are held.
    func hold(
        _ address: NodeStreamAddress,
        _ request: DCPStreamRequest,
        _ fence: UInt64,
        _ number: UInt64
    ) -> Bool {
        guard held.count < ReplicationProducer.heldMax else { return false }
        let deadline = now &+ Limits.mapWaitMilliseconds * 1_000_000
        held.append(
            Held(
                address: address,
                request: request,
                fence: fence,
                number: number,
                deadline: deadline
            )
        )
        return true
    }

    /// Starts to send a feed that was opened with the pump's next ticket.
    func start(_ address: NodeStreamAddress, _ feed: VBucketFeed, buildsThrough: Seqno?) {
        // Acknowledgements of an earlier stream do not describe the copy as it is now: it may have
        // been emptied, and be rebuilt under the same fence.
        feed.bucket.traffic.begin(peer, address.vBucket, link: link)
        started.insert(address)
        guard let window = channels[address.channel]?.window else { return }
        let stream = OutgoingStream(address, feed, buildsThrough: buildsThrough)
        feeds.add(stream, at: address, window: window)
    }

    // MARK: Events

    private func handle(_ event: Event, _ output: ByteWriter) -> Bool {
        switch event {
        case .news(let address, let ticket): feeds.wake(address, ticket: ticket)
        case .map: retryHeld(output)
        case .room:
            let streams = awaitingRoom
            awaitingRoom = []
            for stream in streams {
                stream.isWaiting = false
                feeds.wake(stream)
            }
        case .tick: return tick(output)
        }
        return true
    }

    private func retryHeld(_ output: ByteWriter) {
        let waiting = held
        held = []
        for request in waiting {
            if request.deadline <= now {
                let answer = NodeStreamAnswer.refused(.temporaryFailure)
                send(answer, to: request, output)
            } else if let answer = answer(
                request.address,
                request.request,
                request.fence,
                request.number
            ) {
                send(answer, to: request, output)
            } else if let index = held.indices.last {
                held[index] = request
            }
        }
    }

    private func send(_ answer: NodeStreamAnswer, to request: Held, _ output: ByteWriter) {
        NodeStreamEncoder.append(answer, to: request.number, at: request.address, to: output)
    }

    /// Runs twice a second: sends a no-op, detects a silent peer, and retries streams that may have
    /// missed a wakeup.
    private func tick(_ output: ByteWriter) -> Bool {
        let tick = now
        // While the output is blocked, the handler is not called and nothing is received.
        if tick &- tickedAt > 3 * ReplicationProducer.tickNanoseconds { receivedAt = tick }
        tickedAt = tick
        let silence = tick &- receivedAt
        guard silence < Limits.replicationSilenceMilliseconds * 1_000_000 else {
            service.environment.trace.info(
                "replication",
                "Closing connection to node \(peer): nothing received."
            )
            return false
        }
        ticks += 1
        if ticks % 2 == 0 {
            DCPEncoder(vBucket: VBucketID(0), opaque: 0).appendNoop(to: output)
        }
        retryHeld(output)
        feeds.retry(all: ticks % 4 == 0)
        postTick()
        return true
    }

    private func postTick() {
        service.lanes.nonIO.lane.post(after: ReplicationProducer.tickNanoseconds) { [events] in
            events.put(.tick)
        }
    }

    // MARK: Sending

    private func pump(_ output: ByteWriter, consumed: Int, needed: Int) -> ReceiveProgress {
        let isFull = feeds.pump(
            output,
            limit: { limit($0, $1) },
            stepped: { stream, before in
                if stream.isPaced { service.copyPacer.sent(output.count - before) }
            }
        )
        return ReceiveProgress(consumed: consumed, next: isFull ? .drain : .receive, needed: needed)
    }

    /// The credit of a stream; nil if it waits for the pacer.
    private func limit(_ stream: OutgoingStream, _ credit: Int) -> Int? {
        stream.isPaced = stream.canWait
        guard stream.isPaced else { return credit }
        let room = min(credit, service.copyPacer.room())
        guard room > 0 || credit == 0 || stream.feed.hasResult else {
            waitForRoom(stream)
            return nil
        }
        return room
    }

    private func waitForRoom(_ stream: OutgoingStream) {
        stream.feed.noteMoved()
        guard !stream.isWaiting else { return }
        stream.isWaiting = true
        awaitingRoom.append(stream)
        if awaitingRoom.count == 1 { service.copyPacer.wait { [events] in events.put(.room) } }
    }
}
