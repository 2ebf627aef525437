internal import Engine
internal import Synchronization
internal import Vocabulary
internal import Wire

/// One vBucket's feed to the collector of an HTTP feed.
final class ChangesStream {
    let number: UInt32
    let feed: VBucketFeed
    private let track: SnapshotTrack
    var isQueued = false
    /// The stream counts as inside a snapshot.
    var isAdmitted = false
    private(set) var isOver = false

    init(_ number: UInt32, _ feed: VBucketFeed, _ track: SnapshotTrack) {
        self.number = number
        self.feed = feed
        self.track = track
    }

    /// Whether the feed is inside a snapshot, or reads the disk to begin one.
    var isBusy: Bool { track.isInside || feed.isReading || feed.isReadingDisk }

    func end() {
        isOver = true
        feed.close()
    }
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

/// The order in which the streams of an HTTP feed are stepped.
///
/// A stream is admitted when it is stepped, and until it sleeps outside a snapshot. At most
/// `snapshotsMax` streams are admitted; the others wait for their turn.
struct ChangesQueue {
    var snapshotsMax = 1
    private var admitted = 0
    /// Streams that are admitted.
    private var inside: [ChangesStream] = []
    /// Streams that are not.
    private var waiting: [ChangesStream] = []
    private var firstWaiting = 0

    /// Whether `next` returns a stream.
    var hasWork: Bool {
        !inside.isEmpty || (firstWaiting < waiting.count && admitted < snapshotsMax)
    }

    /// Queues a stream that may have work, once.
    mutating func add(_ stream: ChangesStream) {
        guard !stream.isQueued, !stream.isOver else { return }
        stream.isQueued = true
        if stream.isAdmitted { inside.append(stream) } else { waiting.append(stream) }
    }

    /// Queues a stream that has more work: inside a snapshot before all others, else after them.
    mutating func interrupt(_ stream: ChangesStream) {
        if !stream.isBusy { release(stream) }
        add(stream)
    }

    /// The next stream to step; nil if none may be stepped now.
    mutating func next() -> ChangesStream? {
        while let stream = inside.popLast() {
            stream.isQueued = false
            if !stream.isOver { return stream }
        }
        while admitted < snapshotsMax, firstWaiting < waiting.count {
            let stream = waiting[firstWaiting]
            firstWaiting += 1
            if firstWaiting == waiting.count || firstWaiting >= 1_024 {
                waiting.removeFirst(firstWaiting)
                firstWaiting = 0
            }
            stream.isQueued = false
            guard !stream.isOver else { continue }
            stream.isAdmitted = true
            admitted += 1
            return stream
        }
        return nil
    }

    /// The stream sleeps; outside a snapshot another one is admitted in its place.
    mutating func settle(_ stream: ChangesStream) {
        if !stream.isBusy { release(stream) }
    }

    /// The stream is over.
    mutating func remove(_ stream: ChangesStream) { release(stream) }

    private mutating func release(_ stream: ChangesStream) {
        guard stream.isAdmitted else { return }
        stream.isAdmitted = false
        admitted -= 1
    }
}
