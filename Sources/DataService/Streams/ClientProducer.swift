internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Synchronization
internal import Vocabulary
internal import Wire

/// Sends the visible changes of a bucket's active copies to one client, on the client's connection.
///
/// Streams are served round-robin by bytes. With flow control the unacknowledged bytes of all
/// streams are bounded by the client's buffer; without it, by what the socket accepts.
///
/// - Every stream is a visible-only `VBucketFeed`: a slow client's cursor is dropped from memory,
///   and its feed continues from disk.
/// - A node keeps no change for a client. A client that does not read for
///   `Limits.backfillStallMilliseconds` loses its connection, because a scan keeps file space.
final class ClientProducer {
    enum Event: Sendable {
        /// The feed of this stream may have work.
        case news(VBucketID, ticket: UInt64)
        case tick
    }

    /// The no-ops that the client has to answer.
    private struct Noop {
        var pulse: NoopPulse
        var opaque: UInt32 = ClientProducer.firstNoopOpaque
    }

    /// The bytes of one stream per turn, and of all streams before the reactor serves other
    /// connections.
    private static let turnBytes = 64 << 10
    /// Clients number their streams from zero, often by vBucket.
    private static let firstNoopOpaque: UInt32 = 0x6e6f_0000

    let bucket: OpenBucket
    private let service: DocumentService
    let events: EventQueue<Event>
    private let clock: ClientProducerClock
    private let entry: ClientProducers.Entry
    private(set) var settings: ConsumerSettings
    private(set) var streams: [VBucketID: ClientStream] = [:]
    private var lastTicket: UInt64 = 0
    private var runnable: [ClientStream] = []
    /// Streams that wait for the client to acknowledge bytes.
    private var starved: [ClientStream] = []
    private var window = FlowWindow()
    private var noop: Noop?

    init(
        name: String,
        _ bucket: OpenBucket,
        _ settings: ConsumerSettings,
        port: any ConnectionPort,
        _ service: DocumentService
    ) {
        self.bucket = bucket
        self.settings = settings
        self.service = service
        events = EventQueue(port: port)
        entry = ClientProducers.Entry(name: name, port: port)
        clock = ClientProducerClock(service, port: port) { [events] in events.put(.tick) }
        bucket.traffic.clients.add(entry)
        clock.start()
    }

    /// Ends all streams without a message: the connection closes, or left the bucket.
    func end() {
        clock.stop()
        bucket.traffic.clients.remove(entry)
        for stream in streams.values { stream.end() }
        streams = [:]
        runnable = []
        starved = []
    }

    private var now: UInt64 { service.environment.time.monotonicNanoseconds() }

    // MARK: Requests

    /// Applies a DCP_CONTROL.
    ///
    /// - Throws: `ConsumerRefusal` as `ConsumerSettings.apply` does.
    func apply(_ name: String, _ value: String) throws(ConsumerRefusal) {
        try settings.apply(name, value)
        window.bytesMax = settings.bufferBytes
        if window.room > 0 { feedStarved() }
        guard settings.isNoopEnabled else {
            noop = nil
            return
        }
        let interval = settings.noopSeconds * 1_000_000_000
        if noop == nil { noop = Noop(pulse: NoopPulse(intervalNanoseconds: interval, now: now)) }
        noop?.pulse.intervalNanoseconds = interval
    }

    /// Opens the feed of a stream that the client requested.
    ///
    /// - Returns: The outcome; an opened feed is not sent before `start`.
    func open(
        _ vBucket: VBucketID,
        opaque: UInt32,
        _ request: DCPStreamRequest,
        isJSONAgreed: Bool
    ) -> FeedOpening {
        let format = ClientFormat(settings, isJSONAgreed: isJSONAgreed)
        let encoder = format.encoder(vBucket, opaque: opaque)
        let ticket = lastTicket + 1
        let consumer = FeedConsumer.visibleOnly(
            admits: { $0.state == .active },
            encode: { [entry] item, output in
                if case .change = item { entry.items.add(1, ordering: .relaxed) }
                format.append(item, encoder, to: output)
            },
            wake: { [events] in events.put(.news(vBucket, ticket: ticket)) }
        )
        return service.openFeed(of: vBucket, in: bucket, request, for: consumer)
    }

    /// Begins to send a feed that `open` opened last.
    func start(_ vBucket: VBucketID, opaque: UInt32, _ feed: VBucketFeed) {
        lastTicket += 1
        let stream = ClientStream(vBucket, opaque: opaque, feed, ticket: lastTicket)
        streams[vBucket] = stream
        entry.streams.store(streams.count, ordering: .relaxed)
        enqueue(stream)
    }

    /// Ends a stream at the client's request.
    ///
    /// - Returns: The ended stream; nil if the vBucket has none.
    func close(_ vBucket: VBucketID) -> ClientStream? {
        guard let stream = streams.removeValue(forKey: vBucket) else { return nil }
        stream.end()
        entry.streams.store(streams.count, ordering: .relaxed)
        return stream
    }

    /// Counts a message of a stream that is sent besides `pump`.
    func noteSent(_ bytes: Int) {
        window.sent(bytes)
        entry.bytes.add(UInt64(bytes), ordering: .relaxed)
    }

    /// Subtracts acknowledged bytes; more than were sent count as all of them.
    func acknowledge(_ bytes: Int) {
        _ = window.acknowledged(bytes)
        if window.room > 0 { feedStarved() }
    }

    /// Whether a message is the answer to the last no-op.
    func answersNoop(_ opaque: UInt32) -> Bool {
        guard noop?.opaque == opaque else { return false }
        noop?.pulse.answered()
        return true
    }

    // MARK: Events

    /// Handles the events of other lanes.
    ///
    /// - Returns: False if the client answered no no-op for a whole interval.
    func handleEvents(_ output: ByteWriter) -> Bool {
        clock.noteTurn()
        for event in events.drain() {
            switch event {
            case .news(let vBucket, let ticket):
                if let stream = streams[vBucket], stream.ticket == ticket { enqueue(stream) }
            case .tick: guard tick(output) else { return false }
            }
        }
        return true
    }

    /// Runs once a second: sends a no-op if one is due, and retries streams that may have missed a
    /// wakeup.
    private func tick(_ output: ByteWriter) -> Bool {
        for stream in streams.values {
            let isStalled = stream.feed.endIfStalled()
            if isStalled || stream.feed.isReadingDisk || bucket.isRetired { enqueue(stream) }
        }
        guard var noop else { return true }
        defer { self.noop = noop }
        switch noop.pulse.step(now) {
        case .wait: return true
        case .giveUp: return false
        case .send:
            noop.opaque &+= 1
            DCPEncoder(vBucket: VBucketID(0), opaque: noop.opaque).appendNoop(to: output)
            return true
        }
    }

    // MARK: Sending

    private func enqueue(_ stream: ClientStream) {
        guard !stream.isQueued, !stream.isOver else { return }
        stream.isQueued = true
        runnable.append(stream)
    }

    private func feedStarved() {
        let waiting = starved
        starved = []
        for stream in waiting {
            stream.isStarved = false
            enqueue(stream)
        }
    }

    /// Steps the runnable streams in turn, until the output is large enough or no stream has work.
    ///
    /// - Returns: Whether streams have work that waits for the output to be sent.
    func pump(_ output: ByteWriter) -> Bool {
        var index = 0
        let before = output.count
        while index < runnable.count, output.count < ClientProducer.turnBytes {
            let stream = runnable[index]
            index += 1
            stream.isQueued = false
            if !stream.isOver, step(stream, output) { enqueue(stream) }
        }
        runnable.removeFirst(index)
        entry.bytes.add(UInt64(output.count - before), ordering: .relaxed)
        entry.unacknowledged.store(window.outstanding, ordering: .relaxed)
        return !runnable.isEmpty && output.count > 0
    }

    /// Steps one stream.
    ///
    /// - Returns: Whether it can be stepped again immediately.
    private func step(_ stream: ClientStream, _ output: ByteWriter) -> Bool {
        let before = output.count
        let room = min(window.room, ClientProducer.turnBytes)
        let progress = stream.feed.step(credit: room, into: output)
        window.sent(output.count - before)
        switch progress {
        case .again: return true
        case .asleep: return false
        case .awaitsCredit:
            if !stream.isStarved { starved.append(stream) }
            stream.isStarved = true
            return false
        case .over:
            _ = close(stream.vBucket)
            return false
        }
    }
}
