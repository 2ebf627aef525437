internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// Sends the changes of this node's active copies to one other node, on one stream of the nodes.
///
/// The vBuckets' streams are served round-robin by bytes. The unacknowledged bytes of a bucket are
/// bounded by its window. Each stream is a `VBucketFeed` in replication mode.
///
/// - A stream belongs to a fence and ends with the next one.
/// - Acknowledgements count only on the stream of the nodes on which they arrived.
final class ReplicationProducer: StreamHandler {
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
    /// Bytes of unsent answers from which on requests are refused: they become one message.
    static let outboxBytesMax = 8 << 20
    private static let tickNanoseconds: UInt64 = 1_000_000_000

    let peer: NodeNumber
    let service: DocumentService
    let events: EventQueue<Event>
    var channels: [UInt16: Channel] = [:]
    let feeds = FeedPump<NodeStreamAddress, OutgoingStream>()
    /// Streams that wait for the pacer's room.
    private var awaitingRoom: [OutgoingStream] = []
    private var held: [Held] = []
    private let mapListener: UInt64
    private var ticks = 0
    /// Answers to send.
    let outbox = ByteWriter()
    /// The vBuckets of which acknowledgements are recorded, including those of ended streams;
    /// discarded when the producer is closed.
    private var started: Set<NodeStreamAddress> = []

    init(port: any StreamPort, service: DocumentService) {
        peer = port.node
        self.service = service
        let events = EventQueue<Event> { port.wake() }
        self.events = events
        mapListener = service.listenToMaps { events.put(.map) }
        postTick()
    }

    /// Identifies this producer: the acknowledgements to a node's newest one count.
    private var link: UInt64 { mapListener }

    var now: UInt64 { service.environment.time.monotonicNanoseconds() }

    // MARK: StreamHandler

    func receive(_ message: ByteView) -> StreamReception {
        let decoder = NodeStreamMessage.decoder
        var offset = 0
        while offset < message.count {
            guard case .frame(let frame) = decoder.next(in: message.dropFirst(offset)),
                handle(frame)
            else { return .invalid("an invalid frame") }
            offset += frame.byteCount
        }
        return .handled
    }

    func wake() {
        for event in events.drain() { handle(event) }
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        guard outbox.count > 0 || feeds.machine.hasWork else { return .asleep }
        var hasMore = false
        output.append { writer in
            let end = writer.count + output.room
            writer.append(outbox.view)
            hasMore = feeds.pump(
                writer,
                upTo: end,
                limit: { limit($0, $1) },
                stepped: { stream, before in
                    if stream.isPaced { service.copyPacer.sent(writer.count - before) }
                    if writer.count > before { stream.recordSent { now } }
                }
            )
        }
        outbox.removeAll(keepingAtMost: NodeStreamLimits.turnBytes)
        return hasMore ? .again : .asleep
    }

    func closed(_ reason: String?) {
        if let reason {
            service.environment.trace.info(
                "replication",
                "The stream of changes to node \(peer) ended: \(reason)."
            )
        }
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

    private func handle(_ frame: Frame) -> Bool {
        guard let message = NodeStreamMessage(frame) else { return false }
        let address = NodeStreamAddress(opaque: frame.opaque)
        switch message {
        case .openChannel(let bucket): openChannel(address, bucket.text, frame: frame)
        case .streamRequest(let request, let fence):
            let number = frame.cas.value
            if let answer = answer(address, request, fence: fence, number: number) {
                NodeStreamEncoder.append(answer, to: number, at: address, to: outbox)
            }
        case .closeStream: close(address)
        case .acknowledgement(let progress):
            guard let uuid = channels[address.channel]?.uuid,
                let bucket = service.bucket(uuid: uuid)
            else { return true }
            let stream = feeds.streams[address]
            if let nanoseconds = stream?.endWait(covered: progress.covered, now: { now }) {
                bucket.counters.record(.replication, nanoseconds: nanoseconds)
            }
            bucket.traffic.note(progress, of: address.vBucket, on: peer, link: link)
        case .changes(.bufferAcknowledgement(let bytes)):
            guard let channel = channels[address.channel] else { return true }
            return feeds.machine.acknowledge(Int(bytes), window: channel.window)
        case .changes, .outstanding, .purge: return false
        }
        return true
    }

    private func openChannel(_ address: NodeStreamAddress, _ uuid: String, frame: Frame) {
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
            to: outbox,
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
        fence: UInt64,
        number: UInt64
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

    private func handle(_ event: Event) {
        switch event {
        case .news(let address, let ticket): feeds.wake(address, ticket: ticket)
        case .map: retryHeld()
        case .room:
            let streams = awaitingRoom
            awaitingRoom = []
            for stream in streams {
                stream.isWaiting = false
                feeds.wake(stream)
            }
        case .tick: tick()
        }
    }

    private func retryHeld() {
        let waiting = held
        held = []
        for request in waiting {
            if request.deadline <= now {
                send(.refused(.temporaryFailure), to: request)
            } else if let answer = answer(
                request.address,
                request.request,
                fence: request.fence,
                number: request.number
            ) {
                send(answer, to: request)
            } else if let index = held.indices.last {
                held[index] = request
            }
        }
    }

    private func send(_ answer: NodeStreamAnswer, to request: Held) {
        NodeStreamEncoder.append(answer, to: request.number, at: request.address, to: outbox)
    }

    /// Runs each second: retries what may have missed a wakeup.
    private func tick() {
        ticks += 1
        retryHeld()
        feeds.retry(all: ticks % 2 == 0)
        postTick()
    }

    private func postTick() {
        events.put(.tick, after: ReplicationProducer.tickNanoseconds, on: service.lanes.nonIO)
    }

    // MARK: Sending

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
        stream.feed.recordMove()
        guard !stream.isWaiting else { return }
        stream.isWaiting = true
        awaitingRoom.append(stream)
        if awaitingRoom.count == 1 { service.copyPacer.wait { [events] in events.put(.room) } }
    }
}

/// The handling of stream requests.
extension ReplicationProducer {
    /// Answers a request and starts its stream; nil if the request waits for a map.
    func answer(
        _ address: NodeStreamAddress,
        _ request: DCPStreamRequest,
        fence: UInt64,
        number: UInt64
    ) -> NodeStreamAnswer? {
        close(address)
        guard outbox.count < Self.outboxBytesMax else { return .refused(.temporaryFailure) }
        guard let uuid = channels[address.channel]?.uuid, let bucket = service.bucket(uuid: uuid)
        else { return .refused(.noBucket) }
        let consumer = consumer(at: address, fence: fence, ticket: feeds.nextTicket)
        switch service.openFeed(of: address.vBucket, in: bucket, request, for: consumer) {
        case .noVBucket: return .refused(.noBucket)
        case .notLoaded: return .refused(.temporaryFailure)
        case .outOfRange: return .refused(.outOfRange)
        case .rollBack(let seqno, let log): return .rollback(seqno, log)
        case .opened(let feed, let high, let log):
            let isBuilt = bucket.assignment?[address.vBucket].builders.contains(peer) ?? false
            start(address, feed, buildsThrough: isBuilt ? high : nil)
            return .accepted(high: high, log)
        case .notAdmitted:
            if let status = refusal(of: address.vBucket, in: bucket, fence) {
                return .refused(status)
            }
            let isHeld = hold(address, request, fence: fence, number: number)
            return isHeld ? nil : .refused(.temporaryFailure)
        }
    }

    /// The consumer that encodes the copy active under `fence` for the following node.
    private func consumer(
        at address: NodeStreamAddress,
        fence: UInt64,
        ticket: UInt64
    ) -> FeedConsumer {
        let encoder = DCPEncoder(vBucket: address.vBucket, opaque: address.opaque)
        return .replication(
            admits: { $0.feeds(fence) },
            encode: { item, output in encoder.append(item, at: address, to: output) },
            wake: { [events] in events.put(.news(address, ticket: ticket)) }
        )
    }

    /// The status with which the copy refuses a request of `fence`; nil if the request waits for a
    /// map.
    private func refusal(
        of vBucket: VBucketID,
        in bucket: OpenBucket,
        _ fence: UInt64
    ) -> Status? {
        bucket.engine[vBucket.number]?.withCore { core in
            if fence < core.ownership.fence { return .keyExists }
            // The map makes this copy active, and it is about to be.
            if fence > core.ownership.fence || core.state == .pending { return nil }
            return .notMyVBucket
        }
    }
}
