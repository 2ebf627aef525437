internal import Wire

/// Requests for a selected bucket that is not open on this node.
extension Connection {
    /// Refuses a request that needs an open bucket.
    ///
    /// 0x08 lets clients give up, so it is answered only if no bucket is selected or the bucket was
    /// deleted. If the cluster has the bucket, requests for vBuckets are answered as those for other
    /// nodes' vBuckets, which clients retry with the map, and all others as temporary failures.
    func refuseWithoutBucket(_ request: CommandContext) {
        let isOfVBucket = request.command.concernsVBuckets
        if isElsewhere {
            // The map here is obsolete: the client requests the bucket's from other nodes.
            return answer(isOfVBucket ? .notMyVBucket : .noBucket, to: request.replyTo)
        }
        guard lostBucketName != nil, let map = currentConfiguration else {
            return answer(.noBucket, to: request.replyTo)
        }
        guard isOfVBucket else {
            let text = "The selected bucket is not open on this node yet. Retry."
            return answer(.temporaryFailure, request, text)
        }
        answerNotMyVBucket(request, map)
    }
}

extension Command {
    /// Concerns one or more vBuckets that the request names.
    var concernsVBuckets: Bool {
        switch opcode {
        case .observe, .observeSeqno, .dcpStreamRequest, .dcpGetFailoverLog, .getFailoverLog: true
        default: isKeyed
        }
    }
}
