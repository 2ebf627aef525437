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
        let state = state
        guard state.buckets.count < state.settings.maxBucketCount else {
            return .tooMany(Int(state.settings.maxBucketCount))
        }
        let uuid = environment.entropy.hex(16)
        let ground = BucketForm.Ground(state: state, existing: nil, uuid: uuid)
        guard case .accepted(let settings, let options) = BucketForm.judge(form, on: ground) else {
            return refused(form, changing: nil)
        }
        let rows = VBucketRows(vBuckets: settings.vBuckets, replicas: settings.replicas)
        let bucket = BucketRecord(
            settings: settings,
            options: options,
            servers: [thisNode],
            rows: rows
        )
        let outcome = await carry(.createBucket(bucket), form, changing: nil)
        if case .done = outcome {
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
        let state = state
        guard let existing = state.bucket(named: name) else { return .unknown }
        let ground = BucketForm.Ground(state: state, existing: existing, uuid: "")
        guard case .accepted(let settings, let options) = BucketForm.judge(form, on: ground) else {
            return refused(form, changing: name)
        }
        var bucket = existing
        bucket.settings = settings
        bucket.options = options
        if settings.replicas != existing.settings.replicas {
            bucket.rows = VBucketRows(vBuckets: settings.vBuckets, replicas: settings.replicas)
        }
        guard bucket != existing else { return .done }
        let outcome = await carry(.changeBucket(bucket), form, changing: name)
        if case .done = outcome { tell(.info, .bucket, "Bucket \"\(name)\" was changed.") }
        return outcome
    }

    package func deleteBucket(_ name: String) async -> BucketOutcome {
        guard let bucket = state.bucket(named: name) else { return .unknown }
        let deletion = ClusterCommand.deleteBucket(name: name, uuid: bucket.settings.uuid)
        let outcome = await carry(deletion, FormParameters([]), changing: name)
        if case .done = outcome { tell(.info, .bucket, "Bucket \"\(name)\" was deleted.") }
        return outcome
    }

    package func flushBucket(_ name: String) -> BucketOutcome {
        guard let bucket = state.bucket(named: name) else { return .unknown }
        guard bucket.settings.flushEnabled else { return .flushDisabled }
        do {
            try dataPlane.flush(bucket: name)
        } catch {
            tell(.error, .bucket, "Bucket \"\(name)\" could not be flushed: \(error)")
            return .failed("The bucket could not be flushed: \(error)")
        }
        tell(.info, .bucket, "Bucket \"\(name)\" was flushed.")
        return .done
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

    private func carry(
        _ command: ClusterCommand,
        _ form: FormParameters,
        changing name: String?
    ) async -> BucketOutcome {
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
        case .refused(.bucketUnknown): return .unknown
        case .refused(.tooManyBuckets): return .tooMany(Int(state.settings.maxBucketCount))
        case .refused(.bucketExists), .refused(.alreadyInitialised), .refused(.notInitialised):
            // Another request came first; judged again, the form now says what is wrong.
            return refused(form, changing: name)
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
