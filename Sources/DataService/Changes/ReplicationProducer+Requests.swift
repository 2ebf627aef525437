internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

/// The handling of stream requests.
extension ReplicationProducer {
    /// Answers a request and starts its stream; nil if the request waits for a map.
    func answer(
        _ address: NodeStreamAddress,
        _ request: DCPStreamRequest,
        fence: UInt64,
        number: UInt64
    ) -> NodeStreamAnswer? {
        close(address)
        guard outbox.count < Self.outboxBytesMax else { return .refused(.temporaryFailure) }
        guard let uuid = channels[address.channel]?.uuid, let bucket = service.bucket(uuid: uuid)
        else { return .refused(.noBucket) }
        let consumer = consumer(at: address, fence: fence, ticket: feeds.nextTicket)
        switch service.openFeed(of: address.vBucket, in: bucket, request, for: consumer) {
        case .noVBucket: return .refused(.noBucket)
        case .notLoaded: return .refused(.temporaryFailure)
        case .outOfRange: return .refused(.outOfRange)
        case .rollBack(let seqno, let log): return .rollback(seqno, log)
        case .opened(let feed, let high, let log):
            let isBuilt = bucket.assignment?[address.vBucket].builders.contains(peer) ?? false
            start(address, feed, buildsThrough: isBuilt ? high : nil)
            return .accepted(high: high, log)
        case .notAdmitted:
            if let status = refusal(of: address.vBucket, in: bucket, fence) {
                return .refused(status)
            }
            let isHeld = hold(address, request, fence: fence, number: number)
            return isHeld ? nil : .refused(.temporaryFailure)
        }
    }

    /// The consumer that encodes the copy active under `fence` for the following node.
    private func consumer(
        at address: NodeStreamAddress,
        fence: UInt64,
        ticket: UInt64
    ) -> FeedConsumer {
        let encoder = DCPEncoder(vBucket: address.vBucket, opaque: address.opaque)
        return .replication(
            admits: { $0.feeds(fence) },
            encode: { item, output in encoder.append(item, at: address, to: output) },
            wake: { [events] in events.put(.news(address, ticket: ticket)) }
        )
    }

    /// The status with which the copy refuses a request of `fence`; nil if the request waits for a
    /// map.
    private func refusal(
        of vBucket: VBucketID,
        in bucket: OpenBucket,
        _ fence: UInt64
    ) -> Status? {
        bucket.engine[vBucket.number]?.withCore { core in
            if fence < core.ownership.fence { return .keyExists }
            // The map makes this copy active, and it is about to be.
            if fence > core.ownership.fence || core.state == .pending { return nil }
            return .notMyVBucket
        }
    }
}
