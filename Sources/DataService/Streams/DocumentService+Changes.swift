package import Bytes
internal import Engine
package import Seams
internal import Vocabulary
internal import Wire

/// The answer to a request for a stream of an HTTP feed.
enum ChangesFeedOpening {
    case opened(VBucketFeed, VBucketUUID, high: Seqno)
    /// Changes after this seqno are not in the history of this UUID.
    case rollBack(to: Seqno, VBucketUUID)
    /// Deletions after the position were purged.
    case purged
    /// This node does not serve the vBucket, or is still loading it.
    case unavailable
}

extension DocumentService {
    /// Serves the stream of an HTTP feed's collector; nil if its request is invalid.
    package func answerChanges(
        on port: any StreamPort,
        to request: ByteView
    ) -> (any StreamHandler)? {
        (try? ChangesOpening(decoding: request)).map {
            ChangesResponder($0, port: port, service: self)
        }
    }

    /// Opens a feed from a position of an HTTP feed, whose history may be known by its check only.
    func openFeed(
        of id: VBucketID,
        from position: ChangesPosition,
        in bucket: OpenBucket,
        _ consumer: FeedConsumer
    ) -> ChangesFeedOpening {
        guard let vBucket = bucket.engine[id.number] else { return .unavailable }
        let copy: (log: FailoverLog, purged: Seqno)? = vBucket.withCore { core in
            guard core.state == .active, core.isThere, core.isLoaded else { return nil }
            return (core.failoverLog, core.purgeSeqno)
        }
        guard let copy else { return .unavailable }
        // The consumer has every deletion through its position, also inside a snapshot: a later one
        // was sent with it, or was purged and raises the seqno of the purge.
        var asked = DCPStreamRequest(
            flags: .ignorePurged,
            start: position.seqno,
            end: .last,
            uuid: VBucketUUID(0),
            snapshotStart: position.snapshotStart,
            snapshotEnd: position.snapshotEnd
        )
        switch position.branch {
        case .none: break
        case .latest: asked.flags = .fromLatest
        case .uuid(let uuid): asked.uuid = uuid
        case .check(let check):
            guard let uuid = copy.log.history(matching: check, vBucket: id) else {
                return .rollBack(to: .zero, copy.log.current.uuid)
            }
            asked.uuid = uuid
        }
        if position.seqno > .zero, position.seqno < copy.purged { return .purged }
        switch openFeed(of: id, in: bucket, asked, for: consumer) {
        case .opened(let feed, let high, let log):
            return .opened(feed, log.current.uuid, high: bucket.highVisible(id) ?? high)
        case .rollBack(let seqno, let log): return .rollBack(to: seqno, log.current.uuid)
        case .outOfRange: return .rollBack(to: .zero, copy.log.current.uuid)
        case .noVBucket, .notAdmitted, .notLoaded: return .unavailable
        }
    }
}
