internal import Orchestration
internal import Vocabulary

/// vBuckets that nobody serves, or that a node serves which was failed over: who of the others takes
/// them over.
extension Orchestrator {
    /// An active copy that lost its memory serves nobody: the others are asked first.
    ///
    /// Nodes say with their beats that something is not ready; only then they are asked what.
    func restoreHeldCopies() async {
        let now = now
        let unready = state.nodes.map(\.number).filter { member.isUnready($0) }
        let isStranded = state.buckets.contains { !stranded(in: $0).isEmpty }
        guard !unready.isEmpty || isStranded else {
            sealedSince = [:]
            return
        }
        guard now >= askedAboutHeld + Self.askingPause else { return }
        askedAboutHeld = now
        for bucket in state.buckets {
            let reports = await copies(of: bucket).reports(from: unready)
            guard let found = state.bucket(named: bucket.settings.name) else { continue }
            await resume(sealedForNothing(in: found, reports), ofBucket: found.settings.name)
            // That may have ended a move with its second chain, of which nobody was chosen.
            guard let bucket = state.bucket(named: bucket.settings.name) else { continue }
            let held = Set(held(in: bucket, reports) + stranded(in: bucket)).sorted()
            guard !held.isEmpty else { continue }
            let dead = deadNodes()
            let due = await promising(held, of: bucket, without: dead)
            guard !due.isEmpty, let bucket = state.bucket(named: bucket.settings.name)
            else { continue }
            let round = await sealAndChoose(due, of: bucket, without: dead)
            // Where an answer is missing that may hold a committed write, it waits for it: who is
            // not taken for dead may still be too busy to say anything in time.
            let choices = round.decided.promotions.filter { $0.safety == .safe }
            await promote(choices, of: bucket, deposing: deposed(by: choices, in: bucket).sorted())
        }
    }

    private func held(in bucket: BucketRecord, _ reports: CopyCalls.Reports) -> [VBucketID] {
        bucket.placements.enumerated().compactMap { number, placement in
            let vBucket = VBucketID(UInt16(number))
            guard placement.isConfirmed, let node = placement.chain.first,
                let report = reports[node]?[vBucket], report.fence == placement.fence,
                report.state != .active,
                rebalancing.bucket != bucket.settings.name
                    || !rebalancing.handedOver.contains(vBucket)
            else { return nil }
            return vBucket
        }
    }

    /// vBuckets whose active copy serves nobody, or is with a node that was failed over, and that
    /// have to ask one of `nodes` before another one serves.
    ///
    /// - Returns: Them, by number.
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

    /// The same, whomever they wait for.
    func waiting(in bucket: BucketRecord, _ reports: CopyCalls.Reports) -> [VBucketID] {
        let failedOver = failedOver
        let spoilt = bucket.placements.enumerated().compactMap { number, placement -> VBucketID? in
            let vBucket = VBucketID(UInt16(number))
            guard !placement.isConfirmed, let chosen = placement.chain.first else { return nil }
            // It was failed over since, or crashed and is not what it was taken for.
            let position = reports[chosen]?[vBucket]?.position
            let isLess = position.flatMap { here in placement.expected.map { here < $0 } } ?? false
            return failedOver.contains(chosen) || isLess ? vBucket : nil
        }
        return Set(held(in: bucket, reports) + stranded(in: bucket) + spoilt).sorted()
    }

    /// vBuckets that are with a node which was failed over.
    ///
    /// When that was done nobody else who has them could be asked; whoever has takes them over as
    /// soon as he can be.
    private func stranded(in bucket: BucketRecord) -> [VBucketID] {
        let failedOver = failedOver
        return bucket.placements.enumerated().compactMap { number, placement in
            let isStranded = placement.chain.first.map { failedOver.contains($0) } ?? false
            return placement.isConfirmed && isStranded ? VBucketID(UInt16(number)) : nil
        }
    }

    /// vBuckets that are served while others of their copies are sealed.
    ///
    /// Who sealed them died, or came too late, or they remember it from before a restart: another
    /// fence sets them free.
    private func sealedForNothing(
        in bucket: BucketRecord,
        _ reports: CopyCalls.Reports
    ) -> [VBucketID] {
        let (now, name) = (now, bucket.settings.name)
        let before = sealedSince[name] ?? [:]
        var since: [VBucketID: UInt64] = [:]
        for (number, placement) in bucket.placements.enumerated() where placement.isConfirmed {
            let vBucket = VBucketID(UInt16(number))
            let isSealed = reports.values.contains { reports in
                guard let report = reports[vBucket], report.fence == placement.fence else {
                    return false
                }
                return report.isSealed && report.state == .replica
            }
            if isSealed { since[vBucket] = before[vBucket] ?? now }
        }
        sealedSince[name] = since
        return since.filter { now - $0.value >= Self.sealPatience }.map(\.key).sorted()
    }

    /// How long after a seal its promotion may come: a leader waits for the slowest answer.
    private static var sealPatience: UInt64 { CopyCalls.patience + 1_000_000_000 }

    // MARK: Asking without stopping anybody

    /// What to ask of those for which somebody could be chosen safely, as far as copies tell that are
    /// not sealed.
    ///
    /// Nothing is stopped, and nobody's choice spoilt, for what has to wait all the same. Who was
    /// failed over and lives is asked too: it may have nothing, and then nobody waits for it.
    func promising(
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
    /// Of a copy that an answering node does not have.
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
