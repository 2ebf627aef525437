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
final class ClientStreamSet {
    enum Event: Sendable {
        /// The feed of this stream may have work.
        case news(VBucketID, ticket: UInt64)
        case tick
    }

    let bucket: OpenBucket
    let events: EventQueue<Event>
    let entry: ProducerNameTable.Entry
    private let service: DocumentService
    private let feeds = FeedPump<VBucketID, ClientStream>()
    private let window: Int
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
        window = feeds.machine.addWindow(bytesMax: nil)
        scratch = service.contexts[port.reactor].scratch
        events = EventQueue(port: port)
        entry = ProducerNameTable.Entry(name: name, port: port)
    }

    var streams: [VBucketID: ClientStream] { feeds.streams }

    subscript(vBucket: VBucketID) -> ClientStream? { feeds.streams[vBucket] }

    var isEmpty: Bool { feeds.streams.isEmpty }

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
        let ticket = feeds.nextTicket
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
        feeds.add(ClientStream(vBucket, opaque: opaque, feed), at: vBucket, window: window)
        publishCount()
    }

    /// Ends a stream without a message.
    ///
    /// - Returns: The ended stream; nil if the vBucket has none.
    func close(_ vBucket: VBucketID) -> ClientStream? {
        defer { publishCount() }
        return feeds.remove(vBucket)
    }

    /// Ends all streams without a message.
    func end() { feeds.removeAll() }

    /// Ends all streams, each with a message.
    func end(_ reason: DCPStreamEnd, _ output: ByteWriter) {
        guard !isEmpty else { return }
        let before = output.count
        for stream in streams.values.sorted(by: { $0.vBucket.number < $1.vBucket.number }) {
            DCPEncoder(vBucket: stream.vBucket, opaque: stream.opaque).append(reason, to: output)
        }
        recordSent(output.count - before)
        end()
        publishCount()
    }

    private func publishCount() { entry.streams.store(streams.count, ordering: .relaxed) }

    // MARK: Flow control

    /// Bounds the unacknowledged bytes; nil for no bound.
    func setBuffer(_ bytes: Int?) { feeds.machine.setWindow(window, bytesMax: bytes) }

    /// Subtracts acknowledged bytes; more than were sent count as all of them.
    func acknowledge(_ bytes: Int) { _ = feeds.machine.acknowledge(bytes, window: window) }

    /// Counts a message of a stream that is sent besides `pump`.
    func recordSent(_ bytes: Int) {
        feeds.machine.recordSent(bytes, window: window)
        entry.bytes.add(UInt64(bytes), ordering: .relaxed)
    }

    // MARK: Sending

    /// Handles news of a stream.
    func note(_ vBucket: VBucketID, ticket: UInt64) { feeds.wake(vBucket, ticket: ticket) }

    /// Retries streams that may have missed a wakeup, and ends scans without progress; once a second.
    func retry() { feeds.retry() }

    /// Steps the runnable streams in turn, until the output is large enough or no stream has work.
    ///
    /// - Parameters:
    ///   - output: Where the streams' messages go.
    ///   - ended: Called with each stream whose feed is over.
    /// - Returns: Whether streams have work that waits for the output to be sent.
    func pump(_ output: ByteWriter, ended: (ClientStream) -> Void = { _ in }) -> Bool {
        let before = output.count
        let hasMore = feeds.pump(
            output,
            stepped: { _, start in
                // Only now, as changes from memory are copied under their vBucket's lock.
                guard compressesValues else { return }
                CompressedFrame.compress(framesOf: output, from: start, by: scratch)
            },
            ended: { _, stream in
                publishCount()
                ended(stream)
            }
        )
        entry.bytes.add(UInt64(output.count - before), ordering: .relaxed)
        entry.unacknowledged.store(feeds.machine.window(window).outstanding, ordering: .relaxed)
        return hasMore
    }
}

/// One vBucket's feed to a client.
final class ClientStream: FeedStream {
    let vBucket: VBucketID
    let opaque: UInt32

    init(_ vBucket: VBucketID, opaque: UInt32, _ feed: VBucketFeed) {
        self.vBucket = vBucket
        self.opaque = opaque
        super.init(feed)
    }
}
