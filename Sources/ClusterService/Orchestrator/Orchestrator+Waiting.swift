internal import Orchestration
internal import Vocabulary

/// vBuckets without a serving copy, or whose active copy is on a failed-over node: which other copy
/// replaces it.
extension Orchestrator {
    /// Chooses new active copies for vBuckets whose active copy does not serve, as after a restart
    /// that lost its memory.
    ///
    /// Beats report whether all copies of a node are ready; only nodes that are not ready are
    /// asked.
    func replaceUnservedCopies() async {
        let now = now
        let unready = state.nodes.map(\.number).filter { member.isUnready($0) }
        let isStranded = state.buckets.contains { !vBucketsOnFailedOverNodes(in: $0).isEmpty }
        guard !unready.isEmpty || isStranded else {
            sealedSince = [:]
            return
        }
        guard now >= unservedAskedAt + Self.askingPauseNanoseconds else { return }
        unservedAskedAt = now
        for bucket in state.buckets {
            let reports = await copies(of: bucket).reports(from: unready)
            guard let found = state.bucket(named: bucket.settings.name) else { continue }
            await resume(sealedForNothing(in: found, reports), ofBucket: found.settings.name)
            // The resume may have ended a move in its second chain, which has no choice yet.
            guard let bucket = state.bucket(named: bucket.settings.name) else { continue }
            let unserved = Set(
                unservedVBuckets(in: bucket, reports) + vBucketsOnFailedOverNodes(in: bucket)
            ).sorted()
            guard !unserved.isEmpty else { continue }
            let unusable = unusableNodes()
            let due = await safeQuestions(unserved, of: bucket, without: unusable)
            guard !due.isEmpty, let bucket = state.bucket(named: bucket.settings.name)
            else { continue }
            let round = await sealAndChoose(due, of: bucket, without: unusable)
            // If the answer of a node that may hold a committed write is missing, wait: a node that
            // is not suspected may be too busy to answer in time.
            let choices = round.decided.promotions.filter { $0.safety == .safe }
            await promote(choices, of: bucket, deposing: deposed(by: choices, in: bucket).sorted())
        }
    }

    private func unservedVBuckets(in bucket: BucketRecord, _ reports: CopyCalls.Reports)
        -> [VBucketID]
    {
        bucket.numberedPlacements.compactMap { vBucket, placement in
            guard placement.isConfirmed, let node = placement.chain.first,
                let report = reports[node]?[vBucket], report.fence == placement.fence,
                report.state != .active,
                rebalancing.bucket != bucket.settings.name
                    || !rebalancing.handedOver.contains(vBucket)
            else { return nil }
            return vBucket
        }
    }

    /// vBuckets that have no serving copy, or an active copy on a failed-over node, and whose
    /// promotion must ask one of `nodes`.
    ///
    /// - Returns: The vBuckets, sorted by number.
    func waiting(for nodes: [NodeNumber], in bucket: BucketRecord) async -> [VBucketID] {
        let unready = state.nodes.map(\.number).filter {
            !nodes.contains($0) && member.isUnready($0)
        }
        let reports = await copies(of: bucket).reports(from: unready)
        let waiting = waiting(in: bucket, reports)
        return questions(waiting, of: bucket)
            .filter { question in question.asked.contains(where: nodes.contains) }
            .map(\.vBucket)
    }

    /// The same, regardless of the nodes that must be asked.
    func waiting(in bucket: BucketRecord, _ reports: CopyCalls.Reports) -> [VBucketID] {
        let failedOver = failedOver
        let invalid: [VBucketID] = bucket.numberedPlacements.compactMap { vBucket, placement in
            guard !placement.isConfirmed, let chosen = placement.chain.first else { return nil }
            // The chosen node was failed over since, or its copy lost changes in a crash.
            let position = reports[chosen]?[vBucket]?.position
            let isLess = position.flatMap { here in placement.expected.map { here < $0 } } ?? false
            return failedOver.contains(chosen) || isLess ? vBucket : nil
        }
        return Set(
            unservedVBuckets(in: bucket, reports) + vBucketsOnFailedOverNodes(in: bucket)
                + invalid
        ).sorted()
    }

    /// vBuckets whose active copy is on a failed-over node.
    ///
    /// At the failover no other node with the vBucket could be asked; such a node replaces the
    /// active copy as soon as it answers.
    private func vBucketsOnFailedOverNodes(in bucket: BucketRecord) -> [VBucketID] {
        let failedOver = failedOver
        return bucket.numberedPlacements.compactMap { vBucket, placement in
            let isStranded = placement.chain.first.map { failedOver.contains($0) } ?? false
            return placement.isConfirmed && isStranded ? vBucket : nil
        }
    }

    /// vBuckets with a serving active copy of which other copies are sealed.
    ///
    /// The sealing leader failed, or its choice came too late, or a copy restored its seal after a
    /// restart: a new fence ends the seal.
    private func sealedForNothing(
        in bucket: BucketRecord,
        _ reports: CopyCalls.Reports
    ) -> [VBucketID] {
        let (now, name) = (now, bucket.settings.name)
        let before = sealedSince[name] ?? [:]
        var since: [VBucketID: UInt64] = [:]
        for (vBucket, placement) in bucket.numberedPlacements where placement.isConfirmed {
            let isSealed = reports.values.contains { reports in
                guard let report = reports[vBucket], report.fence == placement.fence else {
                    return false
                }
                return report.isSealed && report.state == .replica
            }
            if isSealed { since[vBucket] = before[vBucket] ?? now }
        }
        sealedSince[name] = since
        return since.filter { now - $0.value >= Self.sealTimeoutNanoseconds }.map(\.key).sorted()
    }

    /// The longest time between a seal and its promotion: a leader waits for the slowest answer.
    private static var sealTimeoutNanoseconds: UInt64 {
        CopyCalls.timeoutNanoseconds + 1_000_000_000
    }

    // MARK: Asking without sealing

    /// The questions whose answer could be a safe choice, by reports of copies that are not
    /// sealed.
    ///
    /// So no copy is stopped, and no earlier choice made invalid, for vBuckets that must wait
    /// anyway. Reachable failed-over nodes are asked too: if such a node has nothing, it is not
    /// waited for.
    func safeQuestions(
        _ vBuckets: [VBucketID],
        of bucket: BucketRecord,
        without absent: [NodeNumber]
    ) async -> [Promotion.Question] {
        guard !vBuckets.isEmpty else { return [] }
        let questions = questions(vBuckets, of: bucket)
        let nodes = Set(questions.flatMap { $0.asked + $0.basis }).subtracting(absent).sorted()
        let reports = await copies(of: bucket).reports(from: nodes)
        let givenUp = leavingForGood
        return questions.compactMap { question in
            var question = question
            let answers = reports.mapValues { $0[question.vBucket] ?? .missing(question) }
            question.noteEmptied(
                reports,
                isInMemory: bucket.settings.type == .ephemeral,
                isBeingEmptied: bucket.isBeingEmptied(question.vBucket)
            )
            let choice = Promotion.choose(question, sealed: answers, givenUp: givenUp)
            let isAnswered = question.asked.allSatisfy { answers[$0] != nil }
            noteAbandoned(question, bucket.settings.name, choice, isAnswered: isAnswered)
            return choice?.safety == .safe ? question : nil
        }
    }
}

extension CopyReport {
    /// The report for a copy that an answering node does not have.
    fileprivate static func missing(_ question: Promotion.Question) -> CopyReport {
        CopyReport(
            vBucket: question.vBucket,
            state: .dead,
            fence: question.fence,
            position: CopyPosition(branchFence: 0, covered: .zero),
            high: .zero,
            persisted: .zero,
            isIntact: false,
            wasCleanStop: false,
            boot: 0
        )
    }
}
