internal import DataService
internal import Engine
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// Observations of the copies of vBuckets while a query is answered.
extension ViewWatch {
    /// The question with what its answer has at least.
    func observe(_ question: ViewQuestion, _ node: SimulatedNode) -> ViewObservation {
        let now = cluster.world.now
        let record = cluster.newestState?.bucket(named: question.bucket)
        let isNow = question.isFresh || isOver
        var observation = ViewObservation(
            question: question,
            address: node.address,
            askedAt: now,
            vBucketCount: max(record?.placements.count ?? 0, 1),
            base: isNow ? snapshot(question.bucket) : pastSnapshot(question)
        )
        observation.isFinal = isOver
        if question.view.document == ChangingView.document {
            observation.definitions = author?.bounds(question.bucket)
        }
        return observation
    }

    /// The newest documents that any index has by now; nil if none are known.
    private func pastSnapshot(_ question: ViewQuestion) -> ViewObservation.Snapshot? {
        guard let since = followedSince(question) else { return nil }
        return snapshots[question.bucket]?.last {
            $0.time >= since && $0.time + ViewWatch.lagNanoseconds <= cluster.world.now
        }
    }

    /// Since when the indexes that may answer the question follow the documents; nil if that is not known.
    ///
    /// A definition that is put again may have a file that was closed for a minute, and answers with its
    /// old rows until that has been updated.
    private func followedSince(_ question: ViewQuestion) -> UInt64? {
        guard question.view.document == ChangingView.document else { return 0 }
        return author?.unchangedSince(question.bucket).map {
            $0 + ViewWatch.reopeningNanoseconds
        }
    }

    /// Whether a late request has changed the view since the question, so that the index of another
    /// definition may have answered with rows from before the base.
    private func mayPrecedeBase(_ asked: ViewObservation) -> Bool {
        guard !asked.question.isFresh, !asked.isFinal, let base = asked.base else { return false }
        guard let since = followedSince(asked.question) else { return true }
        return since > base.time
    }

    /// The documents that are visible now.
    func snapshot(_ bucket: String) -> ViewObservation.Snapshot {
        var snapshot = ViewObservation.Snapshot(time: cluster.world.now)
        let count = cluster.newestState?.bucket(named: bucket)?.placements.count ?? 0
        vBuckets: for number in 0..<count {
            guard let owner = cluster.owner(of: number, bucket),
                let copy = owner.copy(VBucketID(UInt16(number)), of: bucket),
                !hasInherited(number, bucket, on: owner)
            else { continue }
            var documents = ViewObservation.Documents(log: copy.log, covered: copy.covered)
            for (key, version) in copy.documents where !version.isDeleted {
                guard let value = version.body else { continue vBuckets }
                let id = String(decoding: key, as: UTF8.self)
                documents.values[id] = String(decoding: value, as: UTF8.self)
            }
            snapshot.documents[number] = documents
        }
        return snapshot
    }

    /// Whether a copy has prepares that an earlier active copy may have committed: what clients have
    /// seen of them is not visible at present.
    private func hasInherited(_ number: Int, _ bucket: String, on node: SimulatedNode) -> Bool {
        node.node?.data.bucket(named: bucket)?.engine.all[number].withCore { core in
            core.outstandingPrepares.contains { $0.isInherited }
        } ?? true
    }

    /// The vBuckets whose present history does not have all that the answer has at least.
    func lost(since asked: ViewObservation) -> Set<Int> {
        // If clocks stop, an old active copy may answer beside the new one.
        if verifier.isBeyondAssumptions { return Set(0..<asked.vBucketCount) }
        if mayPrecedeBase(asked) { return Set(0..<asked.vBucketCount) }
        let bucket = asked.question.bucket
        return Set(0..<asked.vBucketCount).filter { number in
            guard let before = asked.base?.documents[number],
                let node = cluster.owner(of: number, bucket),
                let now = node.node?.data.bucket(named: bucket)?.engine.all[number].withCore({
                    ($0.failoverLog, $0.coveredSeqno)
                }), let end = now.0.end(of: before.log.current.uuid, high: now.1)
            else { return true }
            return end < before.covered
        }
    }
}
