internal import Engine
internal import Vocabulary

/// Versions that another cluster made.
extension DocumentOperations {
    /// SET_WITH_META, ADD_WITH_META and DELETE_WITH_META.
    ///
    /// Never durable, also if the bucket has a minimum: the other cluster has made the write.
    func storeWithMeta(_ document: DocumentAddress, _ request: WithMetaRequest) -> AttemptOutcome {
        let outcome = document.vBucket.withCore { $0.storeWithMeta(request, turn) }
        let counter: BucketCounter = request.meta.isDeleted ? .deletes : .sets
        return finish(outcome, document.id, counter, cas: request.cas)
    }

    /// An expiry in absolute seconds, within the bucket's bound.
    func expiry(boundedFrom seconds: UInt32) -> UInt32 {
        Expiry.bounded(seconds, maxTTL: bucket.maxTTL, turn)
    }
}
