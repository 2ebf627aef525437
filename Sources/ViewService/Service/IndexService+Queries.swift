package import Indexing

/// What the responder of queries needs of the service.
extension IndexService: ServedBuckets {
    package func state(ofBucket uuid: String) -> ServedVBuckets? {
        bucket(uuid).map { ServedVBuckets(revision: $0.mapRevision, vBuckets: $0.served) }
    }

    /// Views with equal stored results share a slot; the first one of the bucket counts.
    package func reduction(_ slot: IndexSignature, ofBucket uuid: String) -> QueryReduction? {
        if let function = reduceFunction(slot, ofBucket: uuid) { return .custom(function) }
        let definition = bucket(uuid)?.views.first { slotSignature(of: $0) == slot }
        switch definition?.reduce {
        case .count: return .builtin(.count)
        case .sum: return .builtin(.sum)
        case .stats: return .builtin(.stats)
        case nil, .custom: return nil
        }
    }
}
