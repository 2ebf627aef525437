internal import Bytes
package import Indexing
package import ScriptProcesses
internal import Seams
internal import Wire

/// The buckets that the service follows, and what queries need of them.
extension IndexService {
    /// Replaces the buckets: opens, creates, serves, stops and removes indexes as needed.
    ///
    /// The newest call counts. Definitions and revisions are those of the call when it returns;
    /// indexes are opened afterwards. The indexes of a bucket that is missing are removed at once:
    /// the caller must have the agreed state.
    package func reconcile(_ buckets: [ViewBucket]) {
        let unused = newest.withLock { newest -> [ScriptFunction]? in
            guard !newest.isStopped, newest.buckets != buckets else { return nil }
            newest.buckets = buckets
            return adopt(buckets, &newest)
        }
        finishAdopting(unused)
    }

    private func finishAdopting(_ unused: [ScriptFunction]?) {
        guard let unused else { return }
        for function in unused { scripts.forget(function) }
        responder.bucketsChanged()
    }

    /// - Returns: The reduce functions that are not needed any more.
    private func adopt(_ buckets: [ViewBucket], _ newest: inout Newest) -> [ScriptFunction] {
        let earlier = followed.withLock { $0 }
        var next = Followed()
        let uuids = Set(buckets.map(\.uuid))
        newest.successions = newest.successions.filter { uuids.contains($0.key) }
        for bucket in buckets {
            newest.successions[bucket.uuid, default: ViewSuccession()]
                .adopt(bucket.views, bucket.revisions)
            let signed = ViewedBucket(
                bucket,
                earlier: earlier.buckets[bucket.uuid],
                newest.successions[bucket.uuid] ?? ViewSuccession(),
                retired: newest.retired.filter { $0.bucket == bucket.uuid }.map(\.definition)
            )
            next.buckets[bucket.uuid] = signed
            for (slot, source) in signed.reductions {
                let name = IndexName(bucket: bucket.uuid, signature: slot)
                next.reduceFunctions[name] =
                    earlier.reduceFunctions[name]
                    ?? scripts.function(
                        source,
                        .reduce,
                        ofBucket: bucket.uuid,
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

    // MARK: Changed definitions

    /// States that the definition's index is complete on all nodes that serve the bucket: the previous
    /// definitions of its views answer no more, and their files are removed after a while.
    ///
    /// Has no effect on a view that was changed meanwhile.
    package func retirePrevious(of definition: ViewDefinition, ofBucket uuid: String) {
        let unused = newest.withLock { newest -> [ScriptFunction]? in
            guard !newest.isStopped, let buckets = newest.buckets,
                let bucket = buckets.first(where: { $0.uuid == uuid })
            else { return nil }
            let before = newest.successions[uuid, default: ViewSuccession()]
            var after = before
            after.markComplete(definition, among: bucket.views)
            guard after != before else { return nil }
            newest.successions[uuid] = after
            for view in bucket.views {
                guard let previous = before.previous(of: view), after.isSettled(view) else {
                    continue
                }
                newest.numbers += 1
                newest.retired.append(
                    Retired(bucket: uuid, definition: previous, number: newest.numbers)
                )
                endLater(newest.numbers)
            }
            return adopt(buckets, &newest)
        }
        finishAdopting(unused)
    }

    /// Queries that have begun still read the index of a retired definition.
    private func endLater(_ number: UInt64) {
        lanes.files.post(after: settings.retirementNanoseconds) { [weak self] in
            guard let self else { return }
            let unused = newest.withLock { newest -> [ScriptFunction]? in
                guard !newest.isStopped, let buckets = newest.buckets else { return nil }
                newest.retired.removeAll { $0.number == number }
                return adopt(buckets, &newest)
            }
            finishAdopting(unused)
        }
    }

    /// Whether a current definition has been complete on all nodes, and what answers until it is.
    package func reputation(
        of definition: ViewDefinition,
        ofBucket uuid: String
    ) -> (isSettled: Bool, previous: ViewDefinition?) {
        followed.withLock { followed in
            guard let bucket = followed.buckets[uuid], !bucket.unsettled.isEmpty else {
                return (true, nil)
            }
            let succession = bucket.succession
            return (succession.isSettled(definition), succession.previous(of: definition))
        }
    }

    /// Definitions of a bucket whose indexes were never complete on all nodes, one for each index.
    package func unsettled(ofBucket uuid: String) -> [ViewDefinition] {
        followed.withLock { $0.buckets[uuid]?.unsettled ?? [] }
    }

    /// The followed buckets that have such definitions.
    var unsettledBuckets: [ViewBucket] {
        followed.withLock { followed in
            followed.buckets.values.filter { !$0.unsettled.isEmpty }.map(\.bucket)
        }.sorted { $0.uuid < $1.uuid }
    }

    // MARK: Definitions

    /// The bucket of the newest `reconcile`; nil if the service does not follow it.
    package func bucket(_ uuid: String) -> ViewBucket? {
        followed.withLock { $0.buckets[uuid]?.bucket }
    }

    /// A view; nil if there is none.
    package func definition(
        _ view: String,
        in designDocument: String,
        ofBucket uuid: String
    ) -> ViewDefinition? {
        signedView(view, in: designDocument, ofBucket: uuid)?.definition
    }

    /// A view with the names of its index and its reductions, made when the view was followed; nil if there
    /// is none.
    package func signedView(
        _ view: String,
        in designDocument: String,
        ofBucket uuid: String
    ) -> SignedView? {
        followed.withLock { $0.buckets[uuid]?.views[designDocument]?[view] }
    }

    /// The JavaScript function of a slot; nil if no view of the bucket has it.
    package func reduceFunction(
        _ slot: IndexSignature,
        ofBucket uuid: String
    ) -> ScriptFunction? {
        followed.withLock { $0.reduceFunction(slot, ofBucket: uuid) }
    }

    // MARK: Indexes

    /// Whether an index is open or at rest, and gets changes.
    func isUsable(_ signature: IndexSignature, ofBucket uuid: String) -> Bool {
        keeper[IndexName(bucket: uuid, signature: signature)].map {
            ($0.isResting || $0.index != nil) && $0.fault == nil
        } ?? false
    }

    /// An index; nil if no view of the bucket needs it, or while its file is not open.
    ///
    /// One at rest is being opened when this returns.
    package func index(_ signature: IndexSignature, ofBucket uuid: String) -> ViewIndex? {
        keeper[IndexName(bucket: uuid, signature: signature)]?.openIndex()
    }
}
