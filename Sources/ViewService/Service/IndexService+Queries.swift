internal import Bytes
package import Indexing

/// Answers to queries, from the indexes of the followed buckets.
extension IndexService {
    /// Answers a query of another node or of this one.
    ///
    /// - Parameters:
    ///   - request: The query.
    ///   - onThisThread: Whether the answer may begin on the calling thread, before this call returns.
    ///   - reply: Called by one thread at a time, in order.
    /// - Returns: The answer's steering: credit for batches, and its end.
    package func respond(
        to request: QueryRequest,
        onThisThread: Bool = false,
        _ reply: @escaping @Sendable (QueryReply) -> Void
    ) -> any QueryCall {
        // A bucket that is not followed has no views, and its count would never be removed.
        let isCheck = request.index.choice.previous == request.index.choice.current
        if !isCheck, bucket(request.bucket) != nil {
            queries.withLock { $0[request.bucket, default: 0] += 1 }
        }
        return responder.respond(to: request, onThisThread: onThisThread, reply)
    }
}

/// The responder that waits for indexes to be opened, which exist before it.
final class OpeningHook: Sendable {
    private struct State {
        weak var responder: QueryResponder?
    }

    private let state = Guarded(State())

    var responder: QueryResponder? {
        get { state.withLock { $0.responder } }
        set { state.withLock { $0.responder = newValue } }
    }
}

/// Serves queries from the followed buckets and the keeper, without a reference to the service.
struct ServedBucketList: ServedBuckets {
    let followed: Guarded<IndexService.Followed>
    let keeper: IndexKeeper

    func state(ofBucket uuid: String) -> ServedVBuckets? {
        followed.withLock { $0.buckets[uuid]?.served }
    }

    func index(_ signature: IndexSignature, ofBucket uuid: String) -> ViewIndex? {
        keeper[IndexName(bucket: uuid, signature: signature)]?.openIndex()
    }

    func isWaking(_ signature: IndexSignature, ofBucket uuid: String) -> Bool {
        keeper[IndexName(bucket: uuid, signature: signature)]?.isResting ?? false
    }

    func needsIndex(_ signature: IndexSignature, ofBucket uuid: String) -> Bool {
        followed.withLock { $0.buckets[uuid]?.indexes[signature] != nil }
    }

    func obstacle(to signature: IndexSignature, ofBucket uuid: String) -> String? {
        keeper[IndexName(bucket: uuid, signature: signature)]?.obstacle
    }

    func reduction(_ slot: IndexSignature, ofBucket uuid: String) -> QueryReduction? {
        if slot == ServedBucketList.count { return .count }
        if slot == ServedBucketList.numbers { return .numbers }
        return followed.withLock { $0.reduceFunction(slot, ofBucket: uuid) }.map { .custom($0) }
    }

    // MARK: Slots of built-in reductions

    private static let count = slot(.count)
    private static let numbers = slot(.sum)

    private static func slot(_ reduce: ViewDefinition.Reduce) -> IndexSignature? {
        IndexSigning.slotSignature(
            of: ViewDefinition(designDocument: "", view: "", map: "", reduce: reduce)
        )
    }
}
