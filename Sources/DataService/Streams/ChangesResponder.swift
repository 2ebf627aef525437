internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// Sends the visible changes of a bucket's active copies on this node to the collector of one HTTP feed.
///
/// The collector is a node of the cluster, also this one (`ChangesFrame`). It opens a stream of each
/// vBucket that it wants from here.
///
/// - At most as many bytes are sent as the collector allows by its credit. Nothing is kept for it: a slow
///   collector's cursors are dropped from memory, and its feeds continue from disk.
/// - At most `snapshotsMax` streams are inside a snapshot, so a token describes few snapshots. A stream
///   that begins a snapshot is stepped until it ends, as far as credit allows.
final class ChangesResponder: ConnectionHandler {
    enum Event: Sendable {
        /// The feed of this stream may have work.
        case news(UInt32, ticket: UInt64)
        case tick
    }

    /// A collector sends pings; without one for this long its node is gone.
    private static let silenceNanoseconds: UInt64 = 60_000_000_000

    private let service: DocumentService
    private let port: any ConnectionPort
    private let events: EventQueue<Event>
    private let clock: ClientProducerClock
    private let decoder = ChangesFrameDecoder(isFromCollector: true)
    private var opening: ChangesOpening?
    private let feeds = FeedPump<UInt32, ChangesStream>(admittedMax: 1)
    private let window: Int
    private var receivedAt: UInt64

    init(port: any ConnectionPort, service: DocumentService) {
        self.service = service
        self.port = port
        let events = EventQueue<Event>(port: port)
        self.events = events
        window = feeds.machine.addWindow(bytesMax: 0)
        receivedAt = service.environment.time.monotonicNanoseconds()
        clock = ClientProducerClock(service, port: port) { events.put(.tick) }
        clock.start()
    }

    // MARK: ConnectionHandler

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        let now = service.environment.time.monotonicNanoseconds()
        if !input.isEmpty { receivedAt = now }
        var consumed = 0
        while true {
            switch decoder.next(in: input.dropFirst(consumed)) {
            case .frame(let frame):
                if let flaw = handle(frame, output) { return refuse(flaw, input) }
                consumed += frame.byteCount
            case .incomplete(let needed):
                return advance(now, output, consumed: consumed, needed: needed)
            case .invalid(let flaw): return refuse(flaw, input)
            }
        }
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        receive(input, output: output)
    }

    func closed() {
        clock.stop()
        feeds.removeAll()
    }

    private func advance(
        _ now: UInt64,
        _ output: ByteWriter,
        consumed: Int,
        needed: Int
    ) -> ReceiveProgress {
        clock.noteTurn()
        for event in events.drain() {
            switch event {
            case .news(let number, let ticket): feeds.wake(number, ticket: ticket)
            case .tick:
                guard now &- receivedAt < ChangesResponder.silenceNanoseconds else {
                    return ReceiveProgress(consumed: consumed, next: .close)
                }
                feeds.retry()
            }
        }
        let hasMore = feeds.pump(output)
        return ReceiveProgress(
            consumed: consumed,
            next: hasMore ? .drain : .receive,
            needed: hasMore ? 0 : needed
        )
    }

    private func refuse(_ flaw: String, _ input: ByteView) -> ReceiveProgress {
        service.environment.trace.warning(
            "data",
            "Closing the connection of an HTTP feed: the node at \(port.peer) sent \(flaw)."
        )
        return ReceiveProgress(consumed: input.count, next: .close)
    }

    // MARK: Requests

    /// Returns what is wrong with the frame.
    private func handle(_ frame: ChangesFrame, _ output: ByteWriter) -> String? {
        switch frame.kind {
        case .begin:
            guard opening == nil, let opening = ChangesOpening(frame.payload) else {
                return "an invalid first frame"
            }
            self.opening = opening
            feeds.machine.admittedMax = Int(opening.snapshotsMax)
        case .open:
            guard let opening, let request = try? ChangesStreamRequest(decoding: frame.payload),
                feeds.streams[frame.number] == nil, feeds.streams.count < 2 * Limits.vBucketsDefault
            else { return "an invalid request for a stream" }
            open(frame.number, request, opening, output)
        case .close:
            feeds.remove(frame.number)
        case .credit:
            let bytes = Int(frame.payload.bigEndian(at: 0, as: UInt32.self))
            let room = feeds.machine.window(window).room
            guard bytes <= 1 << 30, room <= 1 << 30 else { return "too much credit" }
            feeds.machine.grant(bytes, window: window)
        case .ping: ChangesMessage.pong.append(0, to: output)
        default: return "a frame of the wrong direction"
        }
        return nil
    }

    private func open(
        _ number: UInt32,
        _ request: ChangesStreamRequest,
        _ opening: ChangesOpening,
        _ output: ByteWriter
    ) {
        guard let bucket = service.bucket(uuid: opening.bucket), !bucket.isRetired else {
            return ChangesMessage.unavailable.append(number, to: output)
        }
        let track = SnapshotTrack()
        let ticket = feeds.nextTicket
        let hasValues = opening.hasValues
        let consumer = FeedConsumer.visibleOnly(
            admits: { $0.state == .active },
            encode: { item, output in
                ChangesResponder.encode(item, number, track, hasValues: hasValues, output)
            },
            wake: { [events] in events.put(.news(number, ticket: ticket)) }
        )
        switch service.openFeed(for: request, in: bucket, consumer) {
        case .opened(let feed, let uuid, let high):
            let message = ChangesMessage.opened(uuid, start: feed.position, high: high)
            message.append(number, to: output)
            feeds.add(ChangesStream(feed, track), at: number, window: window)
        case .rollBack(let seqno, let uuid):
            ChangesMessage.rolledBack(uuid, to: seqno).append(number, to: output)
        case .purged:
            let before = output.count
            ChangesMessage.purged.append(number, to: output)
            feeds.machine.noteSent(output.count - before, window: window)
        case .unavailable: ChangesMessage.unavailable.append(number, to: output)
        }
    }

    private static func encode(
        _ item: FeedItem,
        _ number: UInt32,
        _ track: SnapshotTrack,
        hasValues: Bool,
        _ output: ByteWriter
    ) {
        switch item {
        case .snapshot(let snapshot):
            let marker = snapshot.marker
            track.begin(through: marker.end)
            ChangesMessage.snapshot(start: marker.start, end: marker.end)
                .append(number, to: output)
        case .change(let change):
            track.note(change.meta.seqno)
            ChangesMessage.change(ChangesRow(change, hasValue: hasValues))
                .append(number, to: output)
        case .advanced(let seqno):
            track.note(seqno)
            ChangesMessage.advanced(to: seqno).append(number, to: output)
        case .purged: ChangesMessage.purged.append(number, to: output)
        case .end: ChangesMessage.ended.append(number, to: output)
        case .prepare, .abort: preconditionFailure("a visible-only feed has only visible changes")
        }
    }
}
