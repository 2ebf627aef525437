internal import Bytes
internal import Engine
internal import Persistence
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// Sends the changes of this node's active copies to one other node, all buckets on one connection.
///
/// Streams take turns by bytes; what one bucket may have on its way is bounded by what the other
/// side has taken up. Reads of memory happen here, under the vBucket's lock; reads of disk on a lane
/// that hands its bytes back.
///
/// - A stream belongs to a fence: with the next one it ends.
/// - On a new connection nothing counts that the other side said on one before.
final class ReplicationProducer: ConnectionHandler {
    enum Letter: Sendable {
        /// Something happened to the vBucket of this stream.
        case news(UInt64)
        /// A map came, perhaps the one that requests wait for.
        case map
        case opened(UInt64, VBucketScan?)
        case slice(UInt64, OutgoingStream.Slice)
        case failed(UInt64)
        /// There may be room for what can wait.
        case room
        case tick
    }

    /// A bucket that the other side named.
    struct Channel {
        let uuid: String
        var window = FlowWindow(bytesMax: Limits.replicationWindowBytes)
        /// Streams that wait for room.
        var starved: [OutgoingStream] = []
    }

    /// A request that is ahead of our map.
    struct Held {
        let address: NodeStreamAddress
        let request: DCPStreamRequest
        let fence: UInt64
        let number: UInt64
        let deadline: UInt64
    }

    /// Bytes of one stream before another has its turn, and of all before clients on the same
    /// reactor have theirs, here and where they arrive.
    private static let turnBytes = 64 << 10
    private static let heldMax = 1 << 14
    private static let tickNanoseconds: UInt64 = 500_000_000

    let peer: NodeNumber
    let service: DocumentService
    let letters: Letters<Letter>
    private let port: any ConnectionPort
    var channels: [UInt16: Channel] = [:]
    var streams: [NodeStreamAddress: OutgoingStream] = [:]
    private var byTicket: [UInt64: OutgoingStream] = [:]
    private var runnable: [OutgoingStream] = []
    /// Streams that leave clients their turn.
    private var patient: [OutgoingStream] = []
    private var lastTicket: UInt64 = 0
    var held: [Held] = []
    private let mapListener: UInt64
    private var heardAt: UInt64
    private var ticks: UInt64 = 0
    private var tickedAt: UInt64
    private var decoder = FrameDecoder()
    /// Whose copies said how far they are, also of streams that ended: forgotten with the connection.
    private var started: Set<NodeStreamAddress> = []

    init(peer: NodeNumber, port: any ConnectionPort, service: DocumentService) {
        self.peer = peer
        self.port = port
        self.service = service
        let letters = Letters<Letter>(port: port)
        self.letters = letters
        heardAt = service.environment.time.monotonicNanoseconds()
        tickedAt = heardAt
        mapListener = service.listenToMaps { letters.put(.map) }
        postTick()
    }

    /// This connection among all there were: whoever connects anew speaks for the node from then on.
    private var link: UInt64 { mapListener }

    var now: UInt64 { service.environment.time.monotonicNanoseconds() }

    // MARK: ConnectionHandler

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if !input.isEmpty { heardAt = now }
        var offset = 0
        while true {
            switch decoder.next(in: input.dropFirst(offset)) {
            case .frame(let frame):
                guard take(frame, output) else {
                    service.environment.trace.error("replication", "\(peer) sent nonsense")
                    return ReceiveProgress(consumed: input.count, next: .close)
                }
                offset += frame.byteCount
            case .incomplete(let needed): return pump(output, consumed: offset, needed: needed)
            case .valueTooBig, .nonsense:
                return ReceiveProgress(consumed: input.count, next: .close)
            }
        }
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        for letter in letters.takeAll() {
            guard open(letter, output) else {
                return ReceiveProgress(consumed: 0, next: .close)
            }
        }
        return receive(input, output: output)
    }

    func closed() {
        for stream in streams.values { stream.end() }
        for address in started {
            guard let uuid = channels[address.channel]?.uuid else { continue }
            service.bucket(uuid: uuid)?.traffic.forget(peer, address.vBucket, link: link)
        }
        streams = [:]
        byTicket = [:]
        runnable = []
        patient = []
        held = []
        service.stopListeningToMaps(mapListener)
    }

    // MARK: Frames

    private func take(_ frame: Frame, _ output: ByteWriter) -> Bool {
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
            guard var channel = channels[address.channel] else { return true }
            guard channel.window.acknowledged(Int(bytes)) else { return false }
            let starved = channel.starved
            channel.starved = []
            channels[address.channel] = channel
            for stream in starved {
                stream.isStarved = false
                enqueue(stream)
            }
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
        if isThere { channels[address.channel] = Channel(uuid: uuid) }
        ResponseEncoder.append(
            isThere ? .success : .keyNotFound,
            to: output,
            replyTo: frame.replyTo
        )
    }

    func close(_ address: NodeStreamAddress) {
        held.removeAll { $0.address == address }
        guard let stream = streams.removeValue(forKey: address) else { return }
        stream.end()
        byTicket[stream.ticket] = nil
    }

    /// Waits with a request until the map comes that it speaks of.
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

    func start(
        _ address: NodeStreamAddress,
        _ machine: ChangeStream,
        fence: UInt64,
        _ bucket: OpenBucket,
        _ vBucket: VBucket,
        buildsThrough: Seqno?
    ) {
        // What the copy said on a stream before says nothing of what it has now: it may have been
        // emptied, and be built anew under the same fence.
        bucket.traffic.begin(peer, address.vBucket, link: link)
        started.insert(address)
        lastTicket += 1
        let ticket = lastTicket
        let stream = OutgoingStream(
            address,
            fence: fence,
            bucket: bucket,
            vBucket: vBucket,
            ticket: ticket,
            machine: machine,
            buildsThrough: buildsThrough,
            now: now
        )
        stream.listener = bucket.traffic.listen(to: address.vBucket) { [letters] news in
            if case .acknowledged = news { return }
            letters.put(.news(ticket))
        }
        streams[address] = stream
        byTicket[ticket] = stream
        enqueue(stream)
    }

    // MARK: Letters

    private func open(_ letter: Letter, _ output: ByteWriter) -> Bool {
        switch letter {
        case .news(let ticket): if let stream = byTicket[ticket] { enqueue(stream) }
        case .map: retryHeld(output)
        case .opened(let ticket, let scan): opened(ticket, scan)
        case .slice(let ticket, let slice): take(slice, ticket, output)
        case .failed(let ticket):
            if let stream = rest(ticket) {
                stream.machine.scanFailed()
                enqueue(stream)
            }
        case .room:
            let streams = patient
            patient = []
            for stream in streams {
                stream.isWaiting = false
                enqueue(stream)
            }
        case .tick: return tick(output)
        }
        return true
    }

    /// The stream whose lane is through; nil where it ended meanwhile.
    private func rest(_ ticket: UInt64) -> OutgoingStream? {
        guard let stream = byTicket[ticket] else { return nil }
        stream.isBusy = false
        stream.movedAt = now
        return stream
    }

    private func opened(_ ticket: UInt64, _ scan: VBucketScan?) {
        guard let stream = rest(ticket) else { return }
        stream.scan = scan
        if let scan, scan.isComplete {
            stream.machine.opened(.disk(through: scan.end))
        } else {
            stream.machine.opened(.purged)
        }
        enqueue(stream)
    }

    private func take(_ slice: OutgoingStream.Slice, _ ticket: UInt64, _ output: ByteWriter) {
        guard let stream = rest(ticket) else { return }
        output.append(slice.bytes)
        channels[stream.address.channel]?.window.sent(slice.bytes.count)
        if stream.canWait { service.copyPacer.sent(slice.bytes.count) }
        stream.machine.sent(through: slice.last, isEnded: slice.isEnded)
        enqueue(stream)
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

    /// Twice a second: says that we are there, hears whether the other is, and looks at streams that
    /// may have missed something.
    private func tick(_ output: ByteWriter) -> Bool {
        let tick = now
        // While the other side takes nothing, we are not called, and hear nothing.
        if tick &- tickedAt > 3 * ReplicationProducer.tickNanoseconds { heardAt = tick }
        tickedAt = tick
        let silence = tick &- heardAt
        guard silence < Limits.replicationSilenceMilliseconds * 1_000_000 else {
            service.environment.trace.info("replication", "\(peer) fell silent")
            return false
        }
        ticks += 1
        if ticks % 2 == 0 {
            DCPEncoder(vBucket: VBucketID(0), opaque: 0).appendNoop(to: output)
        }
        retryHeld(output)
        let stall = Limits.backfillStallMilliseconds * 1_000_000
        for stream in streams.values {
            if stream.isBackfill, !stream.isBusy, now &- stream.movedAt > stall {
                stream.machine.finish(.slow)
                stream.scan = nil
            }
            if ticks % 4 == 0 || stream.isBackfill { enqueue(stream) }
        }
        postTick()
        return true
    }

    private func postTick() {
        service.lanes.nonIO.lane.post(after: ReplicationProducer.tickNanoseconds) { [letters] in
            letters.put(.tick)
        }
    }

    // MARK: Sending

    private func enqueue(_ stream: OutgoingStream) {
        guard !stream.isQueued, !stream.isBusy, !stream.isOver else { return }
        stream.isQueued = true
        runnable.append(stream)
    }

    /// Lets streams have their turns, until there is enough to send or nothing to do.
    private func pump(_ output: ByteWriter, consumed: Int, needed: Int) -> ReceiveProgress {
        var index = 0
        while index < runnable.count, output.count < ReplicationProducer.turnBytes {
            let stream = runnable[index]
            index += 1
            stream.isQueued = false
            if !stream.isOver, step(stream, output) { enqueue(stream) }
        }
        runnable.removeFirst(index)
        let isFull = !runnable.isEmpty && output.count > 0
        return ReceiveProgress(consumed: consumed, next: isFull ? .drain : .receive, needed: needed)
    }

    /// One thing of one stream; whether there is another at once.
    private func step(_ stream: OutgoingStream, _ output: ByteWriter) -> Bool {
        let number = stream.address.channel
        guard let channel = channels[number], !stream.isBusy else { return false }
        if stream.bucket.isRetired { stream.machine.finish(.stateChanged) }
        let before = output.count
        var room = min(channel.window.room, ReplicationProducer.turnBytes)
        let canWait = stream.canWait
        if canWait {
            room = min(room, service.copyPacer.room())
            guard room > 0 || channel.window.room == 0 else {
                waitForRoom(stream)
                return false
            }
        }
        switch stream.machine.next(room: room) {
        case .open(let after, let promised, let pins):
            if let wanted = stream.open(after: after, promised: promised, pins: pins) {
                openScan(stream, after: wanted.after)
            }
        case .persist(let seqno):
            if stream.isPersisted(seqno) { return true }
            stream.bucket.disk?.flushNow(stream.address.vBucket)
            return false
        case .beginSnapshot: stream.beginSnapshot()
        case .send(let marker): stream.send(marker, into: output)
        case .read(let bytes, let last): stream.read(bytes, last, into: output)
        case .scan(let bytes, let last): scan(stream, bytes, last)
        case .sendAdvanced(let seqno): stream.encoder.append(advancedTo: seqno, to: output)
        case .sendEnd(let reason):
            stream.encoder.append(reason, to: output)
            channels[number]?.window.sent(output.count - before)
            close(stream.address)
            return false
        case .sleep: return false
        case .awaitRoom:
            if !stream.isStarved { channels[number]?.starved.append(stream) }
            stream.isStarved = true
            return false
        case .done:
            close(stream.address)
            return false
        }
        if output.count > before {
            channels[number]?.window.sent(output.count - before)
            if canWait { service.copyPacer.sent(output.count - before) }
            stream.movedAt = now
        }
        return !stream.isBusy
    }

    private func waitForRoom(_ stream: OutgoingStream) {
        stream.movedAt = now
        guard !stream.isWaiting else { return }
        stream.isWaiting = true
        patient.append(stream)
        if patient.count == 1 { service.copyPacer.wait { [letters] in letters.put(.room) } }
    }
}
