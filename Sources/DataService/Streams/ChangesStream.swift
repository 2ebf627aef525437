internal import Engine
internal import Synchronization
internal import Vocabulary
internal import Wire

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
