internal import Bytes
package import Orchestration
internal import Seams
internal import Vocabulary

/// What came of a request about a bucket.
package enum BucketOutcome: Sendable {
    case done
    case refused([FieldError], BucketSummaries)
    /// The cluster has as many as it may.
    case tooMany(Int)
    case unknown
    case flushDisabled
    /// Not now: something else is under way.
    case busy(String)
    /// It began, and goes on; whoever asked has waited long enough.
    case late(String)
    /// A sentence for whoever asked; the details are in the log.
    case failed(String)
}

extension AdministrationService {
    /// Judges a form without doing anything.
    ///
    /// - Parameters:
    ///   - form: What was filled in.
    ///   - name: The bucket to be changed; nil for a new one.
    /// - Returns: What is wrong, if anything, and how memory and disk would be shared out; nil
    ///   where there is no such bucket.
    package func judgeBucket(
        _ form: FormParameters,
        changing name: String?
    ) -> (errors: [FieldError], summaries: BucketSummaries)? {
        let state = state
        let existing = name.flatMap { state.bucket(named: $0) }
        if name != nil, existing == nil { return nil }
        let ground = BucketForm.Ground(state: state, existing: existing, uuid: "")
        switch BucketForm.judge(form, on: ground) {
        case .accepted(let settings, _):
            return ([], summaries(state, name, settings.quota))
        case .refused(let errors):
            let asked = (form["ramQuota"] ?? form["ramQuotaMB"]).flatMap(FormParameters.number)
            let megabytes = min(asked ?? (existing?.settings.quota ?? 0) >> 20, 1 << 40)
            return (errors, summaries(state, name, megabytes << 20))
        }
    }

    package func createBucket(_ form: FormParameters) async -> BucketOutcome {
        // Each round but the last was overtaken by a change of nodes or buckets.
        for _ in 0..<Self.changesMax {
            if let outcome = await tryCreatingBucket(form) { return outcome }
        }
        return .busy("Nodes or buckets are being changed at the same time: ask again.")
    }

    /// Nil where nodes or buckets changed meanwhile, and the form passes all the same.
    private func tryCreatingBucket(_ form: FormParameters) async -> BucketOutcome? {
        let state = state
        guard state.buckets.count < state.settings.maxBucketCount else {
            return .tooMany(Int(state.settings.maxBucketCount))
        }
        let uuid = environment.entropy.hex(16)
        let ground = BucketForm.Ground(state: state, existing: nil, uuid: uuid)
        guard case .accepted(let settings, let options) = BucketForm.judge(form, on: ground) else {
            return refused(form, changing: nil)
        }
        let bucket = NewBucket(
            settings: settings,
            options: options,
            rows: rows(for: settings, state)
        )
        let outcome = await tryCarrying(.createBucket(bucket), form, changing: nil)
        if case .done? = outcome {
            tell(
                .info,
                .bucket,
                "Bucket \"\(settings.name)\" was created: \(settings.quota >> 20) MB on each node, "
                    + "\(settings.evictionPolicy.rawValue), \(settings.vBuckets) vBuckets."
            )
        }
        return outcome
    }

    package func changeBucket(_ name: String, _ form: FormParameters) async -> BucketOutcome {
        // Each that comes in between is somebody else's change that was carried out.
        for _ in 0..<Self.changesMax {
            if let outcome = await tryChangingBucket(name, form) { return outcome }
        }
        return .busy("The bucket is being changed by others at the same time: ask again.")
    }

    private static var changesMax: Int { 10 }

    /// Nil where somebody else changed it meanwhile.
    private func tryChangingBucket(_ name: String, _ form: FormParameters) async -> BucketOutcome? {
        let state = state
        guard let existing = state.bucket(named: name) else { return .unknown }
        let ground = BucketForm.Ground(state: state, existing: existing, uuid: "")
        guard case .accepted(let settings, let options) = BucketForm.judge(form, on: ground) else {
            return refused(form, changing: name)
        }
        guard settings != existing.settings || options != existing.options else { return .done }
        let was = BucketChange.Basis(settings: existing.settings, options: existing.options)
        let change = BucketChange(settings: settings, options: options, was: was)
        guard let outcome = await tryCarrying(.changeBucket(change), form, changing: name) else {
            return nil
        }
        if case .done = outcome { tell(.info, .bucket, "Bucket \"\(name)\" was changed.") }
        return outcome
    }

    /// Deletes a bucket; returns when no node serves it any more.
    ///
    /// A node that is cut off reads and writes on as long as its lease goes, and does not know. Until
    /// then nobody can make another bucket of that name (`Orchestrator.finishDeletions`).
    package func deleteBucket(_ name: String) async -> BucketOutcome {
        guard let bucket = state.bucket(named: name) else { return .unknown }
        let step = BucketStep(name: name, uuid: bucket.settings.uuid, phase: .begin)
        let outcome = await tryCarrying(.deleteBucket(step), FormParameters([]), changing: name)
        guard case .done? = outcome else { return outcome ?? .unknown }
        tell(.info, .bucket, "Bucket \"\(name)\" was deleted.")
        let isOver = await whenChanged(within: Self.deletionPatience) { state in
            !state.deletedBuckets.contains { $0.uuid == bucket.settings.uuid }
        }
        return isOver ? .done : .failed("Bucket deletion not yet complete, but will continue.")
    }

    private static var deletionPatience: UInt64 { 30_000_000_000 }

    /// Empties a bucket on all nodes; returns when every active copy is empty, or the bucket gone.
    ///
    /// A flush that runs already is not this one: copies that it has emptied have taken writes since.
    /// So this one begins when that is over; whatever runs then began after it was asked for.
    package func flushBucket(_ name: String) async -> BucketOutcome {
        guard let bucket = state.bucket(named: name) else { return .unknown }
        guard bucket.settings.flushEnabled else { return .flushDisabled }
        let uuid = bucket.settings.uuid
        let deadline = environment.time.monotonicNanoseconds() + Self.flushPatience
        let late = BucketOutcome.late(
            "Some node has not emptied its copies yet; it will, once it is back, or its disk lets it."
        )
        var begun = await beginFlush(name, uuid)
        if case .another = begun {
            let earlier = state.bucket(named: name)?.flush
            guard await whenFlushed(name, uuid, of: earlier, until: deadline) else { return late }
            begun = await beginFlush(name, uuid)
        }
        if case .not(let outcome) = begun { return outcome }
        guard await whenFlushed(name, uuid, of: nil, until: deadline) else { return late }
        // It was deleted meanwhile: some node may not have heard of either, and have all of it still.
        guard state.bucket(named: name)?.settings.uuid == uuid else { return .unknown }
        tell(.info, .bucket, "Bucket \"\(name)\" was flushed.")
        return .done
    }

    private enum FlushBeginning {
        case done
        /// One runs already.
        case another
        case not(BucketOutcome)
    }

    private func beginFlush(_ name: String, _ uuid: String) async -> FlushBeginning {
        let begin = BucketStep(name: name, uuid: uuid, phase: .begin)
        do throws(ClusterError) {
            switch try await propose(.flushBucket(begin)) {
            // Where this node's disk refused, which the log says, it goes on copy by copy.
            case .done, .failed: return .done
            case .refused(.flushRunning): return .another
            case .refused(.bucketUnknown): return .not(.unknown)
            case .refused(.flushDisabled): return .not(.flushDisabled)
            case .refused(.rebalanceRunning):
                return .not(.busy("Cannot create, empty or delete buckets during rebalance"))
            case .refused(let refusal):
                return .not(.failed("The bucket cannot be flushed now. \(refusal.sentence)"))
            }
        } catch {
            return .not(.failed("The cluster did not agree on it: \(error)"))
        }
    }

    /// Waits until this flush, or any where it is nil, is over, or the bucket gone.
    private func whenFlushed(
        _ name: String,
        _ uuid: String,
        of flush: UInt64?,
        until deadline: UInt64
    ) async -> Bool {
        let now = environment.time.monotonicNanoseconds()
        return await whenChanged(within: deadline - min(deadline, now)) { state in
            guard let bucket = state.bucket(named: name), bucket.settings.uuid == uuid,
                let running = bucket.flush
            else { return true }
            return flush.map { $0 != running } ?? false
        }
    }

    private static var flushPatience: UInt64 { 30_000_000_000 }

    /// Which nodes get the copies of a new bucket.
    private func rows(for settings: BucketSettings, _ state: ClusterState) -> [NodeChain] {
        InitialPlacement.rows(
            vBuckets: settings.vBuckets,
            nodes: state.activeNodes.map { PlacementNode($0.number, group: $0.group) },
            copies: settings.replicas + 1
        ).map { NodeChain($0) ?? NodeChain() }
    }

    /// Buckets that clients may use without a password.
    package var passwordlessBuckets: [BucketRecord] {
        state.buckets.filter(\.settings.passwordless)
    }

    // MARK: Parts

    private func refused(_ form: FormParameters, changing name: String?) -> BucketOutcome {
        guard let (errors, summaries) = judgeBucket(form, changing: name) else { return .unknown }
        return .refused(errors, summaries)
    }

    /// Nil where what it rests on was changed meanwhile, and the form passes all the same.
    private func tryCarrying(
        _ command: ClusterCommand,
        _ form: FormParameters,
        changing name: String?
    ) async -> BucketOutcome? {
        let outcome: Outcome
        do {
            outcome = try await propose(command)
        } catch {
            return .failed("The cluster's state could not be kept: \(error)")
        }
        switch outcome {
        case .done: return .done
        case .failed(let error):
            tell(.error, .bucket, "A bucket could not be opened: \(error)")
            return .failed("The bucket could not be opened: \(error)")
        case .refused(.changedMeanwhile): return nil
        case .refused(.bucketUnknown): return .unknown
        case .refused(.rebalanceRunning):
            return .busy("Cannot create, empty or delete buckets during rebalance")
        case .refused(.bucketBeingDeleted):
            return .failed(
                "Bucket with given name still exists: it is being deleted, and some node has not "
                    + "said that it serves it no more"
            )
        case .refused(.tooManyBuckets): return .tooMany(Int(state.settings.maxBucketCount))
        case .refused(let refusal): return judgeAgain(form, changing: name, after: refusal)
        }
    }

    /// Another request came first in the log: the form, judged by the state of now, says in words and
    /// by field what is wrong.
    ///
    /// - Returns: Nil if nothing is wrong any more, so that the request can be made again.
    private func judgeAgain(
        _ form: FormParameters,
        changing name: String?,
        after refusal: ClusterRefusal
    ) -> BucketOutcome? {
        guard let (errors, summaries) = judgeBucket(form, changing: name) else { return .unknown }
        if !errors.isEmpty { return .refused(errors, summaries) }
        switch refusal {
        case .bucketExists, .memoryQuotaExceeded, .rowsImpossible: return nil
        default: return .failed(refusal.sentence)
        }
    }

    private func summaries(
        _ state: ClusterState,
        _ name: String?,
        _ quota: UInt64
    ) -> BucketSummaries {
        var usage = BucketSummaries.Usage()
        for bucket in state.buckets.map(\.settings.name) {
            guard let statistics = dataPlane.statistics(ofBucket: bucket) else { continue }
            if bucket == name {
                usage.thisMemory = statistics.memoryUsed
                usage.thisDisk = statistics.diskUsed
            } else {
                usage.otherDisk += statistics.diskUsed
            }
        }
        if let space = diskSpace {
            usage.diskTotal = space.total
            usage.diskFree = space.free
        }
        return BucketSummaries(state: state, name: name, quota: quota, usage: usage)
    }
}
