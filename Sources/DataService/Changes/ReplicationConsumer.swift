internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// Follows all vBuckets whose active copy is on one other node, on one connection.
///
/// What is wanted is the link's; this compares it with what is there whenever it changed. A change
/// that has to wait, for the disk or for memory, holds all behind it back, and the other side with
/// them, since bytes are acknowledged once they were taken up. Where that takes long, its stream
/// gives way: a bucket that is full, or a disk that cannot be read, is no reason for others to wait.
///
/// - A change is taken up under the vBucket's lock, and only while the copy follows the fence that
///   the stream was asked for.
/// - After each turn every copy that moved is acknowledged once.
final class ReplicationConsumer: ConnectionHandler {
    enum Letter: Sendable {
        /// Something else is wanted.
        case wanted
        /// Ask for this stream again.
        case ask(NodeStreamAddress)
        /// The copy was read from disk, or cannot be for now.
        case loaded(NodeStreamAddress)
        /// The copy was emptied.
        case reset(NodeStreamAddress)
        case persisted(NodeStreamAddress)
        /// What held the input back is over.
        case resume
        /// What held the input back cannot be read.
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
        /// How often in a row the other node had no such bucket.
        var refusals = 0
        var debt = FlowDebt(bytesMax: Limits.replicationWindowBytes)
    }

    /// Until what the disk could not read is asked for again, each time with a line in the log.
    private static let unreadableNanoseconds: UInt64 = 500_000_000
    /// How long a bucket without memory may hold others back, and how long it stands back then.
    private static let shortNanosecondsMax: UInt64 = 1_000_000_000
    private static let fullNanoseconds: UInt64 = 2_000_000_000
    private static let tickNanoseconds: UInt64 = 500_000_000
    private static let memoryNanoseconds: UInt64 = 20_000_000
    private static let channelNanoseconds: UInt64 = 10_000_000

    let source: NodeNumber
    let service: DocumentService
    let letters: Letters<Letter>
    let link: ReplicationLink
    private let context: LaneContext
    var channels: [UInt16: Channel] = [:]
    var numbers: [String: UInt16] = [:]
    private var lastNumber: UInt16 = 0
    var streams: [NodeStreamAddress: IncomingStream] = [:]
    var lastRequest: UInt64 = 0
    /// Channels of buckets that have no memory for another document, and since when.
    private var shortSince: [UInt16: UInt64] = [:]
    private var touched: Set<NodeStreamAddress> = []
    private var isPaused = false
    private var heardAt: UInt64
    private var ticks = 0
    private var decoder = FrameDecoder()

    init(_ link: ReplicationLink, port: any ConnectionPort, service: DocumentService) {
        self.link = link
        self.service = service
        source = link.source
        letters = Letters(port: port)
        context = service.contexts[port.reactor]
        heardAt = service.environment.time.monotonicNanoseconds()
        letters.put(.wanted)
        postTick()
    }

    private var now: UInt64 { service.environment.time.monotonicNanoseconds() }

    // MARK: ConnectionHandler

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if !input.isEmpty { heardAt = now }
        let progress = process(input, output)
        acknowledge(output)
        return progress
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        for letter in letters.takeAll() {
            guard open(letter, output) else {
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
        link.lost(letters)
    }

    private func process(_ input: ByteView, _ output: ByteWriter) -> ReceiveProgress {
        var offset = 0
        let turn = context.turn(service.environment.time.wallNanoseconds())
        while true {
            switch decoder.next(in: input.dropFirst(offset)) {
            case .frame(let frame):
                switch take(frame, turn, output) {
                case .done: offset += frame.byteCount
                case .paused:
                    isPaused = true
                    return ReceiveProgress(consumed: offset, next: .pause)
                case .close:
                    service.environment.trace.error("replication", "\(source) sent nonsense")
                    return ReceiveProgress(consumed: input.count, next: .close)
                }
            case .incomplete(let needed):
                return ReceiveProgress(consumed: offset, next: .receive, needed: needed)
            case .valueTooBig, .nonsense:
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

    private func take(_ frame: Frame, _ turn: borrowing Turn, _ output: ByteWriter) -> Outcome {
        let address = NodeStreamAddress(opaque: frame.opaque)
        if frame.header.magic == .response {
            switch frame.opcode {
            case .nodeOpenChannel: opened(address.channel, frame.header.status, output)
            case .nodeStreamRequest:
                guard let answer = NodeStreamAnswer(frame) else { return .close }
                answered(address, frame.cas.value, answer, output)
            default: return .close
            }
            return .done
        }
        let outcome: Outcome
        switch NodeStreamMessage(frame) {
        case .changes(.noop): return .done
        case .changes(let message): outcome = take(message, address, turn, output)
        case .outstanding(let seqnos):
            outcome = take(address, output) { $0.take(outstanding: seqnos) }
        case .purge(let purge): outcome = take(address, output) { $0.take(purge) }
        default: return .close
        }
        if outcome == .done, let bytes = channels[address.channel]?.debt.applied(frame.byteCount) {
            DCPEncoder(vBucket: VBucketID(0), opaque: UInt32(address.channel) << 16)
                .append(acknowledged: bytes, to: output)
        }
        return outcome
    }

    private func take(
        _ message: DCPMessage,
        _ address: NodeStreamAddress,
        _ turn: borrowing Turn,
        _ output: ByteWriter
    ) -> Outcome {
        // Of a stream that was given up: it is on its way still.
        guard let stream = streams[address], stream.phase == .streaming else { return .done }
        let taken: IncomingStream.Taken
        switch message {
        case .snapshotMarker(let marker): taken = stream.take(marker)
        case .seqnoAdvanced(let seqno): taken = stream.take(advancedTo: seqno)
        case .change(let change): return take(.change(change), stream, turn, output)
        case .prepare(let change, let level):
            let outcome = take(.prepare(change, level), stream, turn, output)
            // Somebody waits until it is on this disk.
            if level == .persistToMajority { stream.bucket.disk?.flushNow(address.vBucket) }
            return outcome
        case .abort(let abort): return take(.abort(abort), stream, turn, output)
        case .streamEnd(let reason):
            ended(stream, DCPStreamEnd(rawValue: reason), output)
            return .done
        default: return .close
        }
        return conclude(taken, stream, output)
    }

    private func take(
        _ entry: IncomingStream.Entry,
        _ stream: IncomingStream,
        _ turn: borrowing Turn,
        _ output: ByteWriter
    ) -> Outcome {
        let hash = service.hash(entry.key)
        let taken = stream.take(entry, hash: hash, turn)
        if !shortSince.isEmpty, case .applied = taken, entry.isDocument {
            shortSince[stream.address.channel] = nil
        }
        if case .waits(let wait) = taken { return fetch(wait, entry.key, hash, stream) }
        return conclude(taken, stream, output)
    }

    /// What is told of a snapshot beside its changes.
    private func take(
        _ address: NodeStreamAddress,
        _ output: ByteWriter,
        _ told: (IncomingStream) -> IncomingStream.Taken
    ) -> Outcome {
        guard let stream = streams[address], stream.phase == .streaming else { return .done }
        return conclude(told(stream), stream, output)
    }

    private func conclude(
        _ taken: IncomingStream.Taken,
        _ stream: IncomingStream,
        _ output: ByteWriter
    ) -> Outcome {
        switch taken {
        case .applied:
            touched.insert(stream.address)
            return .done
        case .memoryIsShort:
            stream.bucket.pager.wake()
            let since = shortSince[stream.address.channel] ?? now
            shortSince[stream.address.channel] = since
            guard now &- since < ReplicationConsumer.shortNanosecondsMax else {
                giveWay(stream, for: ReplicationConsumer.fullNanoseconds, output)
                return .done
            }
            service.lanes.nonIO.lane.post(after: ReplicationConsumer.memoryNanoseconds) {
                [letters] in letters.put(.resume)
            }
            return .paused
        case .overtaken:
            NodeStreamEncoder.closeStream(at: stream.address, to: output)
            askLater(stream)
            return .done
        case .waits, .violation: return .close
        }
    }

    /// Fetches what a change needs to know of the version before it.
    private func fetch(
        _ wait: Wait,
        _ key: ByteView,
        _ hash: UInt64,
        _ stream: IncomingStream
    ) -> Outcome {
        guard let disk = stream.bucket.disk else { return .close }
        let address = stream.address
        let resume: @Sendable (Completion) -> Void = { [letters] completion in
            if case .failed = completion {
                letters.put(.unreadable(address))
            } else {
                letters.put(.resume)
            }
        }
        if case .handOver = wait { return .close }
        disk.provide(wait, of: address.vBucket, key: key, hash: hash, resume)
        return .paused
    }

    // MARK: Letters

    private func open(_ letter: Letter, _ output: ByteWriter) -> Bool {
        switch letter {
        case .wanted: compare(output)
        case .ask(let address): if let stream = streams[address] { ask(stream, output) }
        case .loaded(let address):
            streams[address]?.awaitsLoading = false
            if let stream = streams[address] { ask(stream, output) }
        case .reset(let address): wasReset(address, output)
        case .persisted(let address): touched.insert(address)
        case .resume: isPaused = false
        case .unreadable(let address):
            isPaused = false
            if let stream = streams[address] {
                giveWay(stream, for: ReplicationConsumer.unreadableNanoseconds, output)
            }
        case .tick: return tick(output)
        }
        return true
    }

    private func tick(_ output: ByteWriter) -> Bool {
        // What is held back is not heard.
        if isPaused { heardAt = now }
        guard now &- heardAt < Limits.replicationSilenceMilliseconds * 1_000_000 else {
            service.environment.trace.info("replication", "\(source) fell silent")
            return false
        }
        ticks += 1
        if ticks % 2 == 0 {
            DCPEncoder(vBucket: VBucketID(0), opaque: 0).appendNoop(to: output)
            compare(output)
        }
        postTick()
        return true
    }

    private func postTick() {
        service.lanes.nonIO.lane.post(after: ReplicationConsumer.tickNanoseconds) { [letters] in
            letters.put(.tick)
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

    // MARK: What is wanted

    /// Opens what is wanted and not there, closes what is there and not wanted.
    private func compare(_ output: ByteWriter) {
        let wanted = link.wanted
        for (uuid, number) in numbers where wanted[uuid] == nil { drop(number, uuid, output) }
        for (uuid, feed) in wanted {
            guard let number = numbers[uuid] else {
                lastNumber &+= 1
                numbers[uuid] = lastNumber
                channels[lastNumber] = Channel(feed: feed)
                NodeStreamEncoder.openChannel(lastNumber, bucket: uuid, to: output)
                continue
            }
            switch channels[number]?.state {
            case .open: compare(feed, number, output)
            case .refused:
                channels[number]?.state = .opening
                NodeStreamEncoder.openChannel(number, bucket: uuid, to: output)
            case .opening, nil: break
            }
        }
    }

    private func drop(_ number: UInt16, _ uuid: String, _ output: ByteWriter) {
        for address in streams.keys where address.channel == number { give(up: address, output) }
        numbers[uuid] = nil
        shortSince[number] = nil
    }

    private func give(up address: NodeStreamAddress, _ output: ByteWriter) {
        guard let stream = streams.removeValue(forKey: address) else { return }
        if stream.phase == .asked || stream.phase == .streaming {
            NodeStreamEncoder.closeStream(at: address, to: output)
        }
        stream.end()
    }

    func compare(_ feed: ReplicationTopology.Feed, _ number: UInt16, _ output: ByteWriter) {
        for (address, stream) in streams where address.channel == number {
            if feed.vBuckets[address.vBucket] != stream.fence || stream.bucket.isRetired {
                give(up: address, output)
            }
        }
        guard let bucket = service.bucket(uuid: feed.uuid) else { return }
        for (id, fence) in feed.vBuckets {
            let address = NodeStreamAddress(channel: number, vBucket: id)
            guard streams[address] == nil, let vBucket = bucket.engine[id.number] else { continue }
            let stream = IncomingStream(address, fence: fence, bucket: bucket, vBucket: vBucket)
            stream.listener = bucket.traffic.listen(to: id) { [letters] news in
                switch news {
                case .persisted: letters.put(.persisted(address))
                case .ownership: letters.put(.ask(address))
                case .changed, .acknowledged, .retired: break
                }
            }
            streams[address] = stream
            ask(stream, output)
        }
    }

    private func opened(_ number: UInt16, _ status: Status?, _ output: ByteWriter) {
        guard let feed = channels[number]?.feed else { return }
        guard status == .success else {
            // A new bucket is open here before it is there: what is written in the meantime has one
            // copy only, so the next question comes soon.
            let refusals = channels[number]?.refusals ?? 0
            channels[number]?.state = .refused
            channels[number]?.refusals = refusals + 1
            let pause = ReplicationConsumer.channelNanoseconds << UInt64(min(refusals, 6))
            service.lanes.nonIO.lane.post(after: pause) { [letters] in letters.put(.wanted) }
            return
        }
        channels[number]?.state = .open
        channels[number]?.refusals = 0
        if let wanted = link.wanted[feed.uuid] { compare(wanted, number, output) }
    }
}
