internal import Bytes
internal import DataService
internal import Engine
internal import Indexing
internal import ViewService
internal import Vocabulary
internal import Wire

/// Implements the view service's port `DocumentChangePort` by feeds of the data service.
///
/// Only active copies are read: the index of a node has the vBuckets that the node serves. A feed ends
/// when its copy is no longer active.
struct ViewFeeds: DocumentChangePort {
    let data: DocumentService

    func openFeed(
        of vBucket: VBucketID,
        ofBucket uuid: String,
        at position: IndexPosition,
        wake: @escaping @Sendable () -> Void
    ) -> ChangeFeedOpening {
        guard let bucket = data.bucket(uuid: uuid) else { return .unavailable }
        let isInSnapshot = position.seqno < position.snapshotEnd
        let request = DCPStreamRequest(
            start: position.seqno,
            end: Seqno((1 << 48) - 1),
            uuid: position.seqno == .zero ? VBucketUUID(0) : position.uuid,
            snapshotStart: isInSnapshot ? position.snapshotStart : position.seqno,
            snapshotEnd: isInSnapshot ? position.snapshotEnd : position.seqno
        )
        let consumer = FeedConsumer.visibleOnly(
            admits: { $0.state == .active },
            encode: { item, output in ViewFeeds.encode(item, output) },
            wake: wake
        )
        switch data.openFeed(of: vBucket, in: bucket, request, for: consumer) {
        case .opened(let feed, let high, let log):
            return .opened(feed, high: high, uuid: log.current.uuid)
        case .rollBack: return .rollBack
        // A position beyond the copy's numbers is of another history.
        case .outOfRange: return .rollBack
        case .noVBucket, .notAdmitted, .notLoaded: return .unavailable
        }
    }

    func highVisible(
        of vBuckets: [VBucketID],
        ofBucket uuid: String
    ) -> [VBucketID: AwaitedChange] {
        guard let bucket = data.bucket(uuid: uuid) else { return [:] }
        var changes: [VBucketID: AwaitedChange] = [:]
        changes.reserveCapacity(vBuckets.count)
        let isValid = data.readServedHighs(of: vBuckets, in: bucket) { vBucket, seqno, history in
            changes[vBucket] = AwaitedChange(seqno, of: history)
        }
        return isValid ? changes : [:]
    }

    func watch(
        _ vBuckets: [VBucketID],
        ofBucket uuid: String,
        _ changed: @escaping @Sendable () -> Void
    ) -> (any ChangeWatch)? {
        data.bucket(uuid: uuid).map {
            ViewWatch(watch: BucketWatch($0, vBuckets, changed: changed))
        }
    }

    private static func encode(_ item: FeedItem, _ output: ByteWriter) {
        switch item {
        case .snapshot(let snapshot):
            ChangeRecord.snapshot(start: snapshot.marker.start, end: snapshot.marker.end)
                .append(to: output)
        case .change(let change):
            ChangeRecord.change(change.meta, key: change.key, value: change.value)
                .append(to: output)
        case .advanced(let seqno): ChangeRecord.advanced(to: seqno).append(to: output)
        case .purged: ChangeRecord.purged.append(to: output)
        case .end: ChangeRecord.ended.append(to: output)
        case .prepare, .abort:
            preconditionFailure("a visible-only feed has no prepares and no aborts")
        }
    }
}

extension VBucketFeed: ChangeFeed {}

/// A watch of the data service, for the view service.
private struct ViewWatch: ChangeWatch {
    let watch: BucketWatch

    func cancel() { watch.cancel() }
}
