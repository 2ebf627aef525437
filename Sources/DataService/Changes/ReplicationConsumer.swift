internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// Follows all vBuckets whose active copy is on one other node, on one connection.
///
/// The link states the wanted feeds; `reconcile` compares them with the open streams whenever they
/// change. A document change that has to wait for the disk or for memory blocks all later changes
/// on the connection. It blocks the producer as well, since bytes are acknowledged only once they
/// are applied. If the wait is long, the consumer closes the stream of that change for a while, so
/// that a full bucket or an unreadable disk does not block other buckets.
///
/// - A change is applied under the vBucket's lock, and only while the copy follows the fence for
///   which the stream was requested.
/// - After each call every copy that progressed is acknowledged once.
final class ReplicationConsumer: ConnectionHandler {
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
    private static let tickNanoseconds: UInt64 = 500_000_000
    private static let memoryNanoseconds: UInt64 = 20_000_000

    let source: NodeNumber
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
    private var receivedAt: UInt64
    private var ticks = 0
    private let decoder = NodeStreamMessage.decoder

    init(_ link: ReplicationLink, port: any ConnectionPort, service: DocumentService) {
        self.link = link
        self.service = service
        source = link.source
        events = EventQueue(port: port)
        context = service.contexts[port.reactor]
        receivedAt = service.environment.time.monotonicNanoseconds()
        events.put(.wanted)
        postTick()
    }

    private var now: UInt64 { service.environment.time.monotonicNanoseconds() }

    // MARK: ConnectionHandler

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if !input.isEmpty { receivedAt = now }
        let progress = process(input, output)
        acknowledge(output)
        return progress
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        for event in events.drain() {
            guard handle(event, output) else {
                return ReceiveProgress(consumed: 0, next: .close)
            }
        }
        guard !isPaused else {
            acknowledge(output)
            return ReceiveProgress(consumed: 0, next: .pause)
        }
        let progress = process(input, output)
        acknowledge(output)
        return progress
    }

    func closed() {
        for stream in streams.values { stream.end() }
        streams = [:]
        link.handleLoss(of: events)
    }

    private func process(_ input: ByteView, _ output: ByteWriter) -> ReceiveProgress {
        var offset = 0
        let turn = context.turn(service.environment.time.wallNanoseconds())
        while true {
            switch decoder.next(in: input.dropFirst(offset)) {
            case .frame(let frame):
                switch handle(frame, turn, output) {
                case .done: offset += frame.byteCount
                case .paused:
                    isPaused = true
                    return ReceiveProgress(consumed: offset, next: .pause)
                case .close:
                    service.environment.trace.error(
                        "replication",
                        "Closing connection to node \(source): invalid frame."
                    )
                    return ReceiveProgress(consumed: input.count, next: .close)
                }
            case .incomplete(let needed):
                return ReceiveProgress(consumed: offset, next: .receive, needed: needed)
            case .valueTooBig, .invalid:
                return ReceiveProgress(consumed: input.count, next: .close)
            }
        }
    }

    // MARK: Frames

    private enum Outcome {
        case done
        case paused
        case close
    }

    private func handle(_ frame: Frame, _ turn: borrowing ExecutionContext, _ output: ByteWriter)
        -> Outcome
    {
        let address = NodeStreamAddress(opaque: frame.opaque)
        if frame.header.magic == .response {
            switch frame.opcode {
            case .nodeOpenChannel: handleOpened(address.channel, frame.header.status, output)
            case .nodeStreamRequest:
                guard let answer = NodeStreamAnswer(frame) else { return .close }
                handleAnswer(address, frame.cas.value, answer, output)
            default: return .close
            }
            return .done
        }
        let outcome: Outcome
        switch NodeStreamMessage(frame) {
        case .changes(.noop): return .done
        case .changes(let message): outcome = handle(message, address, turn, output)
        case .outstanding(let seqnos):
            outcome = apply(address, output) { $0.apply(outstanding: seqnos) }
        case .purge(let purge): outcome = apply(address, output) { $0.apply(purge) }
        default: return .close
        }
        if outcome == .done, let bytes = channels[address.channel]?.debt.applied(frame.byteCount) {
            DCPEncoder(vBucket: VBucketID(0), opaque: UInt32(address.channel) << 16)
                .append(acknowledged: bytes, to: output)
        }
        return outcome
    }

    private func handle(
        _ message: DCPMessage,
        _ address: NodeStreamAddress,
        _ turn: borrowing ExecutionContext,
        _ output: ByteWriter
    ) -> Outcome {
        // The message belongs to a stream that was closed meanwhile.
        guard let stream = streams[address], stream.phase == .streaming else { return .done }
        let result: IncomingStream.ApplyResult
        switch message {
        case .snapshotMarker(let marker): result = stream.apply(marker)
        case .seqnoAdvanced(let seqno): result = stream.apply(advancedTo: seqno)
        case .change(let change): return apply(.change(change), stream, turn, output)
        case .prepare(let change, let level):
            let outcome = apply(.prepare(change, level), stream, turn, output)
            // The active copy waits until this copy has persisted the write.
            if level == .persistToMajority { stream.bucket.disk?.flushNow(address.vBucket) }
            return outcome
        case .abort(let abort): return apply(.abort(abort), stream, turn, output)
        case .streamEnd(let reason):
            handleEnd(stream, DCPStreamEnd(rawValue: reason), output)
            return .done
        default: return .close
        }
        return finish(result, stream, output)
    }

    private func apply(
        _ entry: IncomingStream.Entry,
        _ stream: IncomingStream,
        _ turn: borrowing ExecutionContext,
        _ output: ByteWriter
    ) -> Outcome {
        let hash = service.hash(entry.key)
        let result = stream.apply(entry, hash: hash, turn)
        if !shortSince.isEmpty, case .applied = result, entry.needsRoom {
            shortSince[stream.address.channel] = nil
        }
        if case .waits(let wait) = result { return fetch(wait, entry.key, hash, stream) }
        return finish(result, stream, output)
    }

    /// Applies what accompanies a snapshot: the list of outstanding prepares or the purge.
    private func apply(
        _ address: NodeStreamAddress,
        _ output: ByteWriter,
        _ body: (IncomingStream) -> IncomingStream.ApplyResult
    ) -> Outcome {
        guard let stream = streams[address], stream.phase == .streaming else { return .done }
        return finish(body(stream), stream, output)
    }

    private func finish(
        _ result: IncomingStream.ApplyResult,
        _ stream: IncomingStream,
        _ output: ByteWriter
    ) -> Outcome {
        switch result {
        case .applied:
            touched.insert(stream.address)
            return .done
        case .memoryIsShort:
            stream.bucket.pager.wake()
            let since = shortSince[stream.address.channel] ?? now
            shortSince[stream.address.channel] = since
            guard now &- since < ReplicationConsumer.shortNanosecondsMax else {
                suspend(stream, for: ReplicationConsumer.fullNanoseconds, output)
                return .done
            }
            service.lanes.nonIO.lane.post(after: ReplicationConsumer.memoryNanoseconds) {
                [events] in events.put(.resume)
            }
            return .paused
        case .overtaken:
            NodeStreamEncoder.closeStream(at: stream.address, to: output)
            retryLater(stream)
            return .done
        case .waits, .violation: return .close
        }
    }

    /// Fetches the previous version of a document, which a change needs.
    private func fetch(
        _ wait: Wait,
        _ key: ByteView,
        _ hash: UInt64,
        _ stream: IncomingStream
    ) -> Outcome {
        guard let disk = stream.bucket.disk else { return .close }
        let address = stream.address
        let resume: @Sendable (Completion) -> Void = { [events] completion in
            if case .failed = completion {
                events.put(.unreadable(address))
            } else {
                events.put(.resume)
            }
        }
        if case .handOver = wait { return .close }
        disk.provide(wait, of: address.vBucket, key: key, hash: hash, resume)
        return .paused
    }

    // MARK: Events

    private func handle(_ event: Event, _ output: ByteWriter) -> Bool {
        switch event {
        case .wanted: reconcile(output)
        case .ask(let address): if let stream = streams[address] { requestStream(stream, output) }
        case .loaded(let address):
            streams[address]?.awaitsLoading = false
            if let stream = streams[address] { requestStream(stream, output) }
        case .reset(let address): handleReset(address, output)
        case .persisted(let address): touched.insert(address)
        case .resume: isPaused = false
        case .unreadable(let address):
            isPaused = false
            if let stream = streams[address] {
                suspend(stream, for: ReplicationConsumer.unreadableNanoseconds, output)
            }
        case .tick: return tick(output)
        }
        return true
    }

    private func tick(_ output: ByteWriter) -> Bool {
        // While the input is paused, nothing is received.
        if isPaused { receivedAt = now }
        guard now &- receivedAt < Limits.replicationSilenceMilliseconds * 1_000_000 else {
            service.environment.trace.info(
                "replication",
                "Closing connection to node \(source): nothing received."
            )
            return false
        }
        ticks += 1
        if ticks % 2 == 0 {
            DCPEncoder(vBucket: VBucketID(0), opaque: 0).appendNoop(to: output)
            reconcile(output)
        }
        postTick()
        return true
    }

    private func postTick() {
        service.lanes.nonIO.lane.post(after: ReplicationConsumer.tickNanoseconds) { [events] in
            events.put(.tick)
        }
    }

    private func acknowledge(_ output: ByteWriter) {
        guard !touched.isEmpty else { return }
        for address in touched {
            guard let stream = streams[address], let news = stream.acknowledgement() else {
                continue
            }
            NodeStreamEncoder.append(news, at: address, to: output)
        }
        touched.removeAll(keepingCapacity: true)
    }
}
