internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Synchronization
internal import Vocabulary
internal import Wire

/// The streams of one client's connection, and what it may still send.
///
/// Streams are served round-robin by bytes. The unacknowledged bytes of all streams are bounded by
/// the client's buffer, or, without one, by what the socket accepts. A stream that reads from disk
/// reserves the room that it may fill.
///
/// - Every stream is a visible-only `VBucketFeed`: a slow client's cursor is dropped from memory,
///   and its feed continues from disk. A node keeps no change for a client.
final class ClientStreams {
    enum Event: Sendable {
        /// The feed of this stream may have work.
        case news(VBucketID, ticket: UInt64)
        case tick
    }

    /// The bytes of one stream per turn, and of all streams before the reactor serves other
    /// connections.
    private static let turnBytes = 64 << 10

    let bucket: OpenBucket
    let events: EventQueue<Event>
    let entry: ClientProducers.Entry
    private let service: DocumentService
    private(set) var streams: [VBucketID: ClientStream] = [:]
    private var lastTicket: UInt64 = 0
    private var runnable: [ClientStream] = []
    /// Streams that wait for the client to acknowledge bytes.
    private var starved: [ClientStream] = []
    private var window = FlowWindow()
    /// Whether the values of sent changes are compressed.
    var compressesValues = false
    /// For compressed values; a buffer of the connection's reactor.
    private let scratch: ByteWriter

    init(
        name: String,
        _ bucket: OpenBucket,
        port: any ConnectionPort,
        _ service: DocumentService
    ) {
        self.bucket = bucket
        self.service = service
        scratch = service.contexts[port.reactor].scratch
        events = EventQueue(port: port)
        entry = ClientProducers.Entry(name: name, port: port)
    }

    subscript(vBucket: VBucketID) -> ClientStream? { streams[vBucket] }

    var isEmpty: Bool { streams.isEmpty }

    // MARK: Streams

    /// Opens a feed from a client's position.
    ///
    /// - Parameters:
    ///   - vBucket: The vBucket, which has to be active here.
    ///   - request: The position.
    ///   - encode: The client's format.
    /// - Returns: The outcome; an opened feed is not sent before `start`.
    func open(
        _ vBucket: VBucketID,
        _ request: DCPStreamRequest,
        encode: @escaping FeedConsumer.Encode
    ) -> FeedOpening {
        let ticket = lastTicket + 1
        var consumer = FeedConsumer.visibleOnly(
            admits: { $0.state == .active },
            encode: { [entry] item, output in
                if case .change = item { entry.items.add(1, ordering: .relaxed) }
                encode(item, output)
            },
            wake: { [events] in events.put(.news(vBucket, ticket: ticket)) }
        )
        consumer.ignoresPurges = request.flags.contains(.ignorePurged)
        return service.openFeed(of: vBucket, in: bucket, request, for: consumer)
    }

    /// Begins to send a feed that `open` opened last.
    func start(_ vBucket: VBucketID, opaque: UInt32, _ feed: VBucketFeed) {
        lastTicket += 1
        let stream = ClientStream(vBucket, opaque: opaque, feed, ticket: lastTicket)
        streams[vBucket] = stream
        noteCount()
        enqueue(stream)
    }

    /// Ends a stream without a message.
    ///
    /// - Returns: The ended stream; nil if the vBucket has none.
    func close(_ vBucket: VBucketID) -> ClientStream? {
        guard let stream = streams.removeValue(forKey: vBucket) else { return nil }
        stream.end()
        release(stream)
        noteCount()
        return stream
    }

    /// Ends all streams without a message.
    func end() {
        for stream in streams.values {
            stream.end()
            release(stream)
        }
        streams = [:]
        runnable = []
        starved = []
    }

    /// Ends all streams, each with a message.
    func end(_ reason: DCPStreamEnd, _ output: ByteWriter) {
        guard !streams.isEmpty else { return }
        let before = output.count
        for stream in streams.values.sorted(by: { $0.vBucket.number < $1.vBucket.number }) {
            DCPEncoder(vBucket: stream.vBucket, opaque: stream.opaque).append(reason, to: output)
        }
        noteSent(output.count - before)
        end()
        noteCount()
    }

    private func noteCount() { entry.streams.store(streams.count, ordering: .relaxed) }

    // MARK: Flow control

    /// Bounds the unacknowledged bytes; nil for no bound.
    func setBuffer(_ bytes: Int?) {
        window.bytesMax = bytes
        feedStarved()
    }

    /// Subtracts acknowledged bytes; more than were sent count as all of them.
    func acknowledge(_ bytes: Int) {
        _ = window.acknowledged(bytes)
        feedStarved()
    }

    /// Counts a message of a stream that is sent besides `pump`.
    func noteSent(_ bytes: Int) {
        window.sent(bytes)
        entry.bytes.add(UInt64(bytes), ordering: .relaxed)
    }

    /// Ends the reservation of a stream, whose room other streams may wait for.
    private func release(_ stream: ClientStream) {
        guard stream.reserved > 0 else { return }
        window.release(stream.reserved)
        stream.reserved = 0
        feedStarved()
    }

    private func feedStarved() {
        guard window.room > 0 else { return }
        let waiting = starved
        starved = []
        for stream in waiting {
            stream.isStarved = false
            enqueue(stream)
        }
    }

    // MARK: Sending

    /// Handles news of a stream.
    func note(_ vBucket: VBucketID, ticket: UInt64) {
        if let stream = streams[vBucket], stream.ticket == ticket { enqueue(stream) }
    }

    /// Retries streams that may have missed a wakeup, and ends scans without progress; once a second.
    func retry() {
        for stream in streams.values {
            let isStalled = stream.feed.endIfStalled()
            if isStalled || stream.feed.isReadingDisk || bucket.isRetired { enqueue(stream) }
        }
    }

    private func enqueue(_ stream: ClientStream) {
        guard !stream.isQueued, !stream.isOver else { return }
        stream.isQueued = true
        runnable.append(stream)
    }

    /// Steps the runnable streams in turn, until the output is large enough or no stream has work.
    ///
    /// - Parameters:
    ///   - output: Where the streams' messages go.
    ///   - ended: Called with each stream whose feed is over.
    /// - Returns: Whether streams have work that waits for the output to be sent.
    func pump(_ output: ByteWriter, ended: (ClientStream) -> Void = { _ in }) -> Bool {
        var index = 0
        let before = output.count
        while index < runnable.count, output.count < ClientStreams.turnBytes {
            let stream = runnable[index]
            index += 1
            stream.isQueued = false
            guard !stream.isOver else { continue }
            switch step(stream, output) {
            case .again: enqueue(stream)
            case .asleep: break
            case .awaitsCredit:
                if !stream.isStarved { starved.append(stream) }
                stream.isStarved = true
            case .over:
                _ = close(stream.vBucket)
                ended(stream)
            }
        }
        runnable.removeFirst(index)
        entry.bytes.add(UInt64(output.count - before), ordering: .relaxed)
        entry.unacknowledged.store(window.outstanding, ordering: .relaxed)
        return !runnable.isEmpty && output.count > 0
    }

    private func step(_ stream: ClientStream, _ output: ByteWriter) -> VBucketFeed.Progress {
        let before = output.count
        let room = min(window.room, ClientStreams.turnBytes)
        defer {
            window.sent(output.count - before)
            noteReading(stream, room)
        }
        let progress = stream.feed.step(credit: room, into: output)
        // Only now, as changes from memory are copied under their vBucket's lock.
        if compressesValues {
            CompressedFrame.compress(framesOf: output, from: before, by: scratch)
        }
        return progress
    }

    /// Reserves the credit of a read that a step began; the step that has its result releases it.
    private func noteReading(_ stream: ClientStream, _ credit: Int) {
        guard stream.feed.isReadingChanges else { return release(stream) }
        guard stream.reserved == 0 else { return }
        stream.reserved = credit
        window.reserve(credit)
    }
}
