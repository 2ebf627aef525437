internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// Follows all vBuckets whose active copy is on one other node, on one stream of the nodes.
///
/// The link states the wanted feeds; `reconcile` compares them with the vBuckets' open streams
/// whenever they change. A message is one or more whole frames. A document change that has to wait
/// for the disk or for memory pauses its message and all later ones. It blocks the producer as well,
/// since bytes are acknowledged only once they are applied. If the wait is long, the consumer closes
/// the vBucket's stream for a while, so that a full bucket or an unreadable disk does not block other
/// buckets.
///
/// - A change is applied under the vBucket's lock, and only while the copy follows the fence for
///   which the stream was requested.
/// - With each sent message every copy that progressed since is acknowledged once.
final class ReplicationConsumer: StreamHandler {
    enum Event: Sendable {
        /// The wanted feeds changed.
        case wanted
        /// Request this stream again: its retry delay is over, or the ownership of its copy
        /// changed.
        case ask(NodeStreamAddress)
        /// The copy was loaded from disk, or its loading failed for now.
        case loaded(NodeStreamAddress)
        /// The copy was emptied.
        case reset(NodeStreamAddress)
        case persisted(NodeStreamAddress)
        /// The input may continue.
        case resume
        /// The document for which the input waits cannot be read.
        case unreadable(NodeStreamAddress)
        case tick
    }

    struct Channel {
        enum State {
            case opening
            case open
            case refused
        }

        let feed: ReplicationTopology.Feed
        var state = State.opening
        /// The number of consecutive answers that the other node does not have the bucket.
        var refusals = 0
        var debt = FlowDebt(bytesMax: Limits.replicationWindowBytes)
    }

    /// The delay before an unreadable document is requested again; each attempt writes a log line.
    private static let unreadableNanoseconds: UInt64 = 500_000_000
    /// How long a bucket without memory may block other buckets, and how long its stream is then
    /// suspended.
    private static let shortNanosecondsMax: UInt64 = 1_000_000_000
    private static let fullNanoseconds: UInt64 = 2_000_000_000
    private static let tickNanoseconds: UInt64 = 1_000_000_000
    private static let memoryNanoseconds: UInt64 = 20_000_000

    let service: DocumentService
    let events: EventQueue<Event>
    let link: ReplicationLink
    private let context: LaneContext
    var channels: [UInt16: Channel] = [:]
    var numbers: [String: UInt16] = [:]
    /// The number of the channel that was opened last.
    var lastNumber: UInt16 = 0
    var streams: [NodeStreamAddress: IncomingStream] = [:]
    var lastRequest: UInt64 = 0
    /// Channels of buckets without memory for another document, and since when.
    var shortSince: [UInt16: UInt64] = [:]
    private var touched: Set<NodeStreamAddress> = []
    private var isPaused = false
    /// Where the paused message continues; 0 between messages.
    private var offset = 0
    /// Frames to send, except for acknowledgements of copies.
    let outbox = ByteWriter()

    init(_ link: ReplicationLink, port: any StreamPort, service: DocumentService) {
        self.link = link
        self.service = service
        events = EventQueue { port.wake() }
        context = service.contexts[port.reactor]
        events.put(.wanted)
        postTick()
    }

    var source: NodeNumber { link.source }

    private var now: UInt64 { service.environment.time.monotonicNanoseconds() }

    // MARK: StreamHandler

    func receive(_ message: ByteView) -> StreamReception {
        guard !isPaused else { return .paused }
        let decoder = NodeStreamMessage.decoder
        let turn = context.turn(service.environment.time.wallNanoseconds())
        while offset < message.count {
            guard case .frame(let frame) = decoder.next(in: message.dropFirst(offset)) else {
                return .invalid("an invalid frame")
            }
            switch handle(frame, turn) {
            case .done: offset += frame.byteCount
            case .paused:
                isPaused = true
                return .paused
            case .invalid: return .invalid("an invalid frame")
            }
        }
        offset = 0
        return .handled
    }

    func wake() {
        for event in events.drain() { handle(event) }
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        guard outbox.count > 0 || !touched.isEmpty else { return .asleep }
        output.append { writer in
            writer.append(outbox.view)
            acknowledge(writer)
        }
        outbox.removeAll(keepingAtMost: NodeStreamLimits.turnBytes)
        return .asleep
    }

    func closed(_ reason: String?) {
        for stream in streams.values { stream.end() }
        streams = [:]
        link.handleLoss(reason)
    }

    // MARK: Frames

    private enum Outcome {
        case done
        case paused
        case invalid
    }

    private func handle(_ frame: Frame, _ turn: borrowing ExecutionContext) -> Outcome {
        let address = NodeStreamAddress(opaque: frame.opaque)
        if frame.header.magic == .response {
            switch frame.opcode {
            case .nodeOpenChannel: handleOpened(address.channel, frame.header.status)
            case .nodeStreamRequest:
                guard let answer = NodeStreamAnswer(frame) else { return .invalid }
                handleAnswer(address, frame.cas.value, answer: answer)
            default: return .invalid
            }
            return .done
        }
        let outcome: Outcome
        switch NodeStreamMessage(frame) {
        case .changes(let message): outcome = handle(message, address, in: turn)
        case .outstanding(let seqnos): outcome = apply(address) { $0.apply(outstanding: seqnos) }
        case .purge(let purge): outcome = apply(address) { $0.apply(purge) }
        default: return .invalid
        }
        if outcome == .done, let bytes = channels[address.channel]?.debt.applied(frame.byteCount) {
            DCPEncoder(vBucket: VBucketID(0), opaque: UInt32(address.channel) << 16)
                .append(acknowledged: bytes, to: outbox)
        }
        return outcome
    }

    private func handle(
        _ message: DCPMessage,
        _ address: NodeStreamAddress,
        in turn: borrowing ExecutionContext
    ) -> Outcome {
        // The message belongs to a stream that was closed meanwhile.
        guard let stream = streams[address], stream.phase == .streaming else { return .done }
        let result: IncomingStream.ApplyResult
        switch message {
        case .snapshotMarker(let marker): result = stream.apply(marker)
        case .seqnoAdvanced(let seqno): result = stream.apply(advancedTo: seqno)
        case .change(let change): return apply(.change(change), stream, in: turn)
        case .prepare(let change, let level):
            let outcome = apply(.prepare(change, level), stream, in: turn)
            // The active copy waits until this copy has persisted the write.
            if level == .persistToMajority { stream.bucket.disk?.flushNow(address.vBucket) }
            return outcome
        case .abort(let abort): return apply(.abort(abort), stream, in: turn)
        case .streamEnd(let reason):
            handleEnd(stream, DCPStreamEnd(rawValue: reason))
            return .done
        default: return .invalid
        }
        return finish(result, stream)
    }

    private func apply(
        _ entry: IncomingStream.Entry,
        _ stream: IncomingStream,
        in turn: borrowing ExecutionContext
    ) -> Outcome {
        let hash = service.hash(entry.key)
        let result = stream.apply(entry, hash: hash, turn)
        if !shortSince.isEmpty, case .applied = result, entry.needsRoom {
            shortSince[stream.address.channel] = nil
        }
        if case .waits(let wait) = result { return fetch(wait, entry.key, hash: hash, for: stream) }
        return finish(result, stream)
    }

    /// Applies what accompanies a snapshot: the list of outstanding prepares or the purge.
    private func apply(
        _ address: NodeStreamAddress,
        _ body: (IncomingStream) -> IncomingStream.ApplyResult
    ) -> Outcome {
        guard let stream = streams[address], stream.phase == .streaming else { return .done }
        return finish(body(stream), stream)
    }

    private func finish(_ result: IncomingStream.ApplyResult, _ stream: IncomingStream) -> Outcome {
        switch result {
        case .applied:
            touched.insert(stream.address)
            return .done
        case .memoryIsShort:
            stream.bucket.pager.wake()
            let since = shortSince[stream.address.channel] ?? now
            shortSince[stream.address.channel] = since
            guard now &- since < ReplicationConsumer.shortNanosecondsMax else {
                suspend(stream, for: ReplicationConsumer.fullNanoseconds)
                return .done
            }
            let pause = ReplicationConsumer.memoryNanoseconds
            events.put(.resume, after: pause, on: service.lanes.nonIO)
            return .paused
        case .overtaken:
            NodeStreamEncoder.closeStream(at: stream.address, to: outbox)
            retryLater(stream)
            return .done
        case .waits, .violation: return .invalid
        }
    }

    /// Fetches the previous version of a document, which a change needs.
    private func fetch(
        _ wait: Wait,
        _ key: ByteView,
        hash: UInt64,
        for stream: IncomingStream
    ) -> Outcome {
        guard let disk = stream.bucket.disk else { return .invalid }
        let address = stream.address
        let resume: @Sendable (Completion) -> Void = { [events] completion in
            if case .failed = completion {
                events.put(.unreadable(address))
            } else {
                events.put(.resume)
            }
        }
        if case .handOver = wait { return .invalid }
        disk.provide(wait, of: address.vBucket, key: key, hash: hash, resume)
        return .paused
    }

    // MARK: Events

    private func handle(_ event: Event) {
        switch event {
        case .wanted: reconcile()
        case .ask(let address): if let stream = streams[address] { requestStream(stream) }
        case .loaded(let address):
            streams[address]?.awaitsLoading = false
            if let stream = streams[address] { requestStream(stream) }
        case .reset(let address): handleReset(address)
        case .persisted(let address): touched.insert(address)
        case .resume: isPaused = false
        case .unreadable(let address):
            isPaused = false
            if let stream = streams[address] {
                suspend(stream, for: ReplicationConsumer.unreadableNanoseconds)
            }
        case .tick:
            reconcile()
            postTick()
        }
    }

    private func postTick() {
        events.put(.tick, after: ReplicationConsumer.tickNanoseconds, on: service.lanes.nonIO)
    }

    private func acknowledge(_ output: ByteWriter) {
        for address in touched {
            guard let stream = streams[address], let news = stream.acknowledgement() else {
                continue
            }
            NodeStreamEncoder.append(news, at: address, to: output)
        }
        touched.removeAll(keepingCapacity: true)
    }
}

/// The channels and streams that the link wants: one channel for each bucket, one stream for each vBucket.
extension ReplicationConsumer {
    /// The delay after the first answer that the other node does not have a bucket; it doubles with each
    /// further one.
    private static let channelNanoseconds: UInt64 = 10_000_000

    /// Opens streams that are wanted and missing, closes streams that are no longer wanted.
    func reconcile() {
        let wanted = link.wanted
        for (uuid, number) in numbers where wanted[uuid] == nil { closeChannel(number, uuid) }
        for (uuid, feed) in wanted {
            guard let number = numbers[uuid] else {
                lastNumber &+= 1
                numbers[uuid] = lastNumber
                channels[lastNumber] = Channel(feed: feed)
                NodeStreamEncoder.openChannel(lastNumber, bucket: uuid, to: outbox)
                continue
            }
            switch channels[number]?.state {
            case .open: reconcile(feed, number)
            case .refused:
                channels[number]?.state = .opening
                NodeStreamEncoder.openChannel(number, bucket: uuid, to: outbox)
            case .opening, nil: break
            }
        }
    }

    private func closeChannel(_ number: UInt16, _ uuid: String) {
        for address in streams.keys where address.channel == number { closeStream(address) }
        numbers[uuid] = nil
        shortSince[number] = nil
    }

    private func closeStream(_ address: NodeStreamAddress) {
        guard let stream = streams.removeValue(forKey: address) else { return }
        if stream.phase == .asked || stream.phase == .streaming {
            NodeStreamEncoder.closeStream(at: address, to: outbox)
        }
        stream.end()
    }

    func reconcile(_ feed: ReplicationTopology.Feed, _ number: UInt16) {
        for (address, stream) in streams where address.channel == number {
            if feed.vBuckets[address.vBucket] != stream.fence || stream.bucket.isRetired {
                closeStream(address)
            }
        }
        guard let bucket = service.bucket(uuid: feed.uuid) else { return }
        for (id, fence) in feed.vBuckets {
            let address = NodeStreamAddress(channel: number, vBucket: id)
            guard streams[address] == nil, let vBucket = bucket.engine[id.number] else { continue }
            let stream = IncomingStream(address, fence: fence, bucket: bucket, vBucket: vBucket)
            stream.listener = bucket.traffic.listen(to: id) { [events] news in
                switch news {
                case .persisted: events.put(.persisted(address))
                case .ownership: events.put(.ask(address))
                case .changed, .acknowledged, .retired: break
                }
            }
            streams[address] = stream
            requestStream(stream)
        }
    }

    /// The other node has answered whether it has the bucket of a channel.
    func handleOpened(_ number: UInt16, _ status: Status?) {
        guard let feed = channels[number]?.feed else { return }
        guard status == .success else {
            // The map can name a new bucket before the other node has it. Changes made meanwhile
            // have one copy only, so the retry comes soon.
            let refusals = channels[number]?.refusals ?? 0
            channels[number]?.state = .refused
            channels[number]?.refusals = refusals + 1
            let pause = ReplicationConsumer.channelNanoseconds << UInt64(min(refusals, 6))
            service.lanes.nonIO.lane.post(after: pause) { [events] in events.put(.wanted) }
            return
        }
        channels[number]?.state = .open
        channels[number]?.refusals = 0
        if let wanted = link.wanted[feed.uuid] { reconcile(wanted, number) }
    }
}
