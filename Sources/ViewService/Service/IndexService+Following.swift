internal import Bytes
package import Indexing
internal import Wire

/// The buckets that the service follows, and what queries need of them.
extension IndexService {
    /// Replaces the buckets: opens, creates, serves, stops and removes indexes as needed.
    ///
    /// The newest call counts. Definitions and revisions are those of the call when it returns;
    /// indexes are opened afterwards. The indexes of a bucket that is missing are removed at once:
    /// the caller must have the agreed state.
    package func follow(_ buckets: [ViewBucket]) {
        let unused = newest.withLock { newest -> [ScriptFunction]? in
            guard !newest.isStopped, newest.buckets != buckets else { return nil }
            newest.buckets = buckets
            return adopt(buckets)
        }
        guard let unused else { return }
        for function in unused { scripts.forget(function) }
        responder.bucketsChanged()
    }

    /// - Returns: The reduce functions that are not needed any more.
    private func adopt(_ buckets: [ViewBucket]) -> [ScriptFunction] {
        let earlier = followed.withLock { $0 }
        var next = Followed()
        for bucket in buckets {
            let signed = FollowedBucket(bucket, earlier: earlier.buckets[bucket.uuid])
            next.buckets[bucket.uuid] = signed
            for (slot, source) in signed.reductions where next.reduceFunctions[slot] == nil {
                next.reduceFunctions[slot] =
                    earlier.reduceFunctions[slot]
                    ?? scripts.function(
                        source,
                        .reduce,
                        timeoutMilliseconds: settings.reduceTimeoutMilliseconds
                    )
            }
        }
        let complete = next
        followed.withLock { $0 = complete }
        queries.withLock { queries in
            queries = queries.filter { complete.buckets[$0.key] != nil }
        }
        keeper.adopt(complete.buckets)
        return earlier.reduceFunctions.filter { complete.reduceFunctions[$0.key] == nil }
            .map(\.value)
    }

    // MARK: Definitions

    /// The bucket of the newest `follow`; nil if the service does not follow it.
    package func bucket(_ uuid: String) -> ViewBucket? {
        followed.withLock { $0.buckets[uuid]?.bucket }
    }

    /// A view; nil if there is none.
    package func definition(
        _ view: String,
        in designDocument: String,
        ofBucket uuid: String
    ) -> ViewDefinition? {
        followed.withLock { $0.buckets[uuid]?.definitions[designDocument]?[view] }
    }

    /// The name of the index that has the view's rows.
    package func signature(of definition: ViewDefinition) -> IndexSignature {
        IndexSigning.signature(of: definition)
    }

    /// The name of the view's stored reductions; nil if it has no reduce function.
    package func slotSignature(of definition: ViewDefinition) -> IndexSignature? {
        IndexSigning.slotSignature(of: definition)
    }

    /// As the static property.
    package var collationVersion: String { IndexService.collationVersion }

    /// The JavaScript function of a slot; nil if no view of the bucket has it.
    package func reduceFunction(
        _ slot: IndexSignature,
        ofBucket uuid: String
    ) -> ScriptFunction? {
        followed.withLock { followed in
            guard followed.buckets[uuid]?.reductions[slot] != nil else { return nil }
            return followed.reduceFunctions[slot]
        }
    }

    // MARK: Indexes

    /// An index; nil if no view of the bucket needs it, or while its file is not open.
    package func index(_ signature: IndexSignature, ofBucket uuid: String) -> ViewIndex? {
        keeper[IndexName(bucket: uuid, signature: signature)]?.index
    }
}
