internal import Engine
internal import Replication
package import Vocabulary
package import Wire

extension DocumentService {
    /// Opens a feed of a vBucket from a consumer's position.
    ///
    /// - Parameters:
    ///   - id: The vBucket.
    ///   - bucket: The bucket.
    ///   - request: The consumer's position, the history it belongs to, where the feed ends, and
    ///     whether it reads the disk only.
    ///   - consumer: Receives the items.
    /// - Returns: The feed, or the reason why there is none.
    package func openFeed(
        of id: VBucketID,
        in bucket: OpenBucket,
        _ request: DCPStreamRequest,
        for consumer: FeedConsumer
    ) -> FeedOpening {
        guard let vBucket = bucket.engine[id.number] else { return .noVBucket }
        let (isAdmitted, opening): (Bool, StreamOpening?) = vBucket.withCore { core in
            guard consumer.admits(core), consumer.mode == .replication || core.isThere else {
                return (false, nil)
            }
            guard core.isLoaded else { return (true, nil) }
            let opening = StreamOpening(
                log: core.failoverLog,
                high: core.coveredSeqno,
                purged: core.purgeSeqno
            )
            return (true, opening)
        }
        guard isAdmitted else { return .notAdmitted }
        guard let opening else { return .notLoaded }
        switch opening.answer(to: request) {
        case .outOfRange: return .outOfRange
        case .rollback(let seqno): return .rollBack(to: seqno, opening.log)
        case .accepted(let start, let promised, let end):
            var consumer = consumer
            // An ephemeral bucket has no disk: its feed ends at the latest change.
            consumer.readsDiskOnly = request.flags.contains(.diskOnly) && bucket.disk != nil
            // The versions that a scan finds may be newer than the end of the request.
            let stream = ChangeStream(
                start: start,
                promised: promised,
                end: consumer.readsDiskOnly ? Seqno(.max) : end,
                mode: consumer.mode,
                isOnce: consumer.readsDiskOnly
            )
            let place = VBucketFeed.Place(
                bucket: bucket,
                vBucket: vBucket,
                id: id,
                uuid: opening.log.current.uuid
            )
            let feed = VBucketFeed(place, stream, for: consumer, service: self)
            return .opened(feed, high: opening.high, opening.log)
        }
    }
}

extension VBucketCore {
    /// Whether this node has a copy and keeps it.
    var isThere: Bool {
        ownership.exists && !ownership.isResetting && state != .dead
    }
}

extension OpenBucket {
    /// The seqno of a vBucket's newest change that clients may see: a visible-only feed reaches it.
    ///
    /// - Returns: Nil if this node has no copy, or the copy is being loaded.
    package func highVisible(_ vBucket: VBucketID) -> Seqno? {
        engine[vBucket.number]?.withCore { core in
            core.isThere && core.isLoaded ? core.highVisible : nil
        }
    }
}

extension DocumentService {
    /// Reads the newest visible changes of the vBuckets that this node serves.
    ///
    /// - Parameters:
    ///   - vBuckets: The vBuckets.
    ///   - bucket: The bucket.
    ///   - body: Called with each vBucket that is served, its high seqno, and the history that the
    ///     seqno is of.
    /// - Returns: Whether the lease still held after the last read. If not, another node may have
    ///   acknowledged changes before these reads, and they must not be used.
    package func readServedHighs(
        of vBuckets: [VBucketID],
        in bucket: OpenBucket,
        _ body: (_ vBucket: VBucketID, _ high: Seqno, _ history: VBucketUUID) -> Void
    ) -> Bool {
        for id in vBuckets {
            let served: (Seqno, VBucketUUID)? = bucket.engine[id.number]?.withCore { core in
                core.isThere && core.isLoaded && core.state == .active
                    ? (core.highVisible, core.uuid) : nil
            }
            if let (high, history) = served { body(id, high, history) }
        }
        return holdsLease
    }
}
