internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Synchronization
internal import Vocabulary
internal import Wire

/// Sends the visible changes of a bucket's active copies on this node to the collector of one HTTP feed.
///
/// The collector is a node of the cluster, also this one. It opens each vBucket that it wants from here
/// (`HTTPFeedRequest`).
///
/// - Nothing is kept for the collector: if it is slow, its cursors are dropped from memory, and its feeds
///   continue from disk.
/// - At most `snapshotsMax` vBuckets are inside a snapshot, so a token describes few snapshots. A feed that
///   begins a snapshot is stepped until it ends, as far as the stream has room.
final class ChangesResponder: StreamHandler {
    enum Event: Sendable {
        /// The feed of this number may have work.
        case news(UInt32, ticket: UInt64)
        case tick
    }

    private static let tickNanoseconds: UInt64 = 1_000_000_000

    private let opening: ChangesOpening
    private let service: DocumentService
    private let events: EventQueue<Event>
    /// No feed is admitted before `HTTPFeedRequest.begin`.
    private let feeds = FeedPump<UInt32, ChangesStream>(admittedMax: 0)
    private let window: Int
    /// Records that are not sent.
    private let records = ByteWriter()

    init(_ opening: ChangesOpening, port: any StreamPort, service: DocumentService) {
        self.opening = opening
        self.service = service
        events = EventQueue { port.wake() }
        window = feeds.machine.addWindow(bytesMax: 0)
        postTick()
    }

    // MARK: StreamHandler

    func receive(_ message: ByteView) -> StreamReception {
        do throws(CodingFailure) {
            var flaw: String?
            try HTTPFeedRequest.forEach(in: message) { number, request in
                if flaw == nil { flaw = handle(request, number) }
            }
            return flaw.map { .invalid($0) } ?? .handled
        } catch {
            return .invalid("an invalid request: \(error)")
        }
    }

    func wake() {
        for event in events.drain() {
            switch event {
            case .news(let number, let ticket): feeds.wake(number, ticket: ticket)
            case .tick:
                feeds.retry()
                postTick()
            }
        }
    }

    func send(_ output: any StreamOutput) -> StreamProgress {
        // The window has what is left of the room when reads under way get what they have reserved.
        let sent = feeds.machine.window(window).outstanding
        let room = max(0, output.credit - records.count)
        feeds.machine.setWindow(window, bytesMax: sent + room)
        _ = feeds.pump(records)
        guard records.count > 0 else { return .asleep }
        output.append { $0.append(records.view) }
        records.removeAll(keepingAtMost: NodeStreamLimits.turnBytes)
        return .again
    }

    func closed(_ reason: String?) { feeds.removeAll() }

    /// The tick of a stream that is over wakes nothing, so no other follows.
    private func postTick() {
        events.put(.tick, after: ChangesResponder.tickNanoseconds, on: service.lanes.nonIO)
    }

    // MARK: Requests

    /// Returns what is wrong with the request.
    private func handle(_ request: HTTPFeedRequest, _ number: UInt32) -> String? {
        switch request {
        case .open(let vBucket, let position):
            guard number > 0, feeds.streams[number] == nil,
                feeds.streams.count < 2 * Limits.vBucketsDefault
            else { return "an invalid request for a vBucket" }
            open(number, vBucket, at: position)
        case .close: feeds.remove(number)
        case .begin: feeds.machine.admittedMax = Int(opening.snapshotsMax)
        }
        return nil
    }

    private func open(_ number: UInt32, _ vBucket: VBucketID, at position: ChangesPosition) {
        guard let bucket = service.bucket(uuid: opening.bucket), !bucket.isRetired else {
            return ChangesMessage.unavailable.append(number, to: records)
        }
        let track = SnapshotTrack()
        let ticket = feeds.nextTicket
        let hasValues = opening.hasValues
        let consumer = FeedConsumer.visibleOnly(
            admits: { $0.state == .active },
            encode: { item, output in
                ChangesResponder.encode(
                    item,
                    number,
                    track: track,
                    hasValues: hasValues,
                    to: output
                )
            },
            wake: { [events] in events.put(.news(number, ticket: ticket)) }
        )
        switch service.openFeed(of: vBucket, from: position, in: bucket, consumer) {
        case .opened(let feed, let uuid, let high):
            let message = ChangesMessage.opened(uuid, start: feed.position, high: high)
            message.append(number, to: records)
            feeds.add(ChangesStream(feed, track), at: number, window: window)
        case .rollBack(let seqno, let uuid):
            ChangesMessage.rolledBack(uuid, to: seqno).append(number, to: records)
        case .purged: ChangesMessage.purged.append(number, to: records)
        case .unavailable: ChangesMessage.unavailable.append(number, to: records)
        }
    }

    private static func encode(
        _ item: FeedItem,
        _ number: UInt32,
        track: SnapshotTrack,
        hasValues: Bool,
        to output: ByteWriter
    ) {
        let message: ChangesMessage
        switch item {
        case .snapshot(let snapshot):
            let marker = snapshot.marker
            track.begin(through: marker.end)
            message = .snapshot(start: marker.start, end: marker.end)
        case .change(let change):
            track.note(change.meta.seqno)
            message = .change(HTTPFeedRow(change, hasValue: hasValues))
        case .advanced(let seqno):
            track.note(seqno)
            message = .advanced(to: seqno)
        case .purged: message = .purged
        case .end: message = .ended
        case .prepare, .abort: preconditionFailure("a visible-only feed has only visible changes")
        }
        message.append(number, to: output)
    }
}

/// One vBucket's feed to the collector of an HTTP feed.
final class ChangesStream: FeedStream {
    private let track: SnapshotTrack

    init(_ feed: VBucketFeed, _ track: SnapshotTrack) {
        self.track = track
        super.init(feed)
    }

    /// Whether the feed is inside a snapshot, or reads the disk to begin one.
    override var isBusy: Bool { track.isInside || feed.isReading || feed.isReadingDisk }
}

/// Whether the items that were encoded for a stream end inside a snapshot.
///
/// Items from disk are encoded on a lane.
final class SnapshotTrack: Sendable {
    private let end = Atomic<UInt64>(0)
    private let last = Atomic<UInt64>(0)

    func begin(through seqno: Seqno) { end.store(seqno.value, ordering: .relaxed) }

    func note(_ seqno: Seqno) { last.store(seqno.value, ordering: .relaxed) }

    var isInside: Bool { last.load(ordering: .relaxed) < end.load(ordering: .relaxed) }
}
