internal import Engine
internal import Replication
internal import Vocabulary
internal import Wire

/// What a node says to another one that wants to follow a vBucket.
extension ReplicationProducer {
    /// What this node's copy says to a fence.
    private enum Verdict {
        case open(StreamOpening)
        case refuse(Status)
        case ahead
    }

    /// Answers a request and starts its stream; nil where it waits for a map.
    func answer(
        _ address: NodeStreamAddress,
        _ request: DCPStreamRequest,
        _ fence: UInt64,
        _ number: UInt64
    ) -> NodeStreamAnswer? {
        close(address)
        guard let uuid = channels[address.channel]?.uuid, let bucket = service.bucket(uuid: uuid),
            let vBucket = bucket.engine[address.vBucket.number]
        else { return .refused(.noBucket) }
        let verdict: Verdict = vBucket.withCore { core in
            if fence < core.ownership.fence { return .refuse(.keyExists) }
            if fence > core.ownership.fence { return .ahead }
            // Named to be active, and not so yet: it will be in a moment.
            if core.state == .pending { return .ahead }
            guard core.feeds(fence) else { return .refuse(.notMyVBucket) }
            guard core.isLoaded else { return .refuse(.temporaryFailure) }
            return .open(
                StreamOpening(
                    log: core.failoverLog,
                    high: core.highSeqno,
                    purged: core.purgeSeqno
                )
            )
        }
        switch verdict {
        case .refuse(let status): return .refused(status)
        case .ahead:
            let isHeld = hold(address, request, fence, number)
            return isHeld ? nil : .refused(.temporaryFailure)
        case .open(let opening):
            switch opening.answer(to: request) {
            case .outOfRange: return .refused(.outOfRange)
            case .rollback(let seqno): return .rollback(seqno, opening.log)
            case .accepted(let from, let promised, let end):
                let machine = ChangeStream(start: from, promised: promised, end: end)
                let isBuilt = bucket.assignment?[address.vBucket].builders.contains(peer) ?? false
                start(
                    address,
                    machine,
                    fence: fence,
                    bucket,
                    vBucket,
                    buildsThrough: isBuilt ? opening.high : nil
                )
                return .accepted(high: opening.high, opening.log)
            }
        }
    }
}
