package import Orchestration
internal import Seams
package import Vocabulary

/// Requests about buckets: create, change, flush, delete.
package final class BucketService: Sendable {
    let cluster: Cluster
    let users: UserService

    init(_ cluster: Cluster, _ users: UserService) { (self.cluster, self.users) = (cluster, users) }

    /// Checks a form without changing anything.
    ///
    /// - Parameters:
    ///   - form: The form.
    ///   - name: The bucket to be changed; nil for a new one.
    /// - Returns: The errors, and how memory and disk would be shared; nil if there is no such
    ///   bucket.
    package func validate(
        _ form: FormParameters,
        changing name: String?
    ) -> (errors: [FieldError], summaries: BucketSummaries)? {
        let state = cluster.state
        let existing = name.flatMap { state.bucket(named: $0) }
        if name != nil, existing == nil { return nil }
        let ground = BucketForm.Ground(state: state, existing: existing, uuid: "")
        switch BucketForm.validate(form, on: ground) {
        case .accepted(let settings, _):
            return ([], summaries(state, name, settings.quota))
        case .refused(let errors):
            let asked = (form["ramQuota"] ?? form["ramQuotaMB"]).flatMap(FormParameters.number)
            let megabytes = min(asked ?? (existing?.settings.quota ?? 0) >> 20, 1 << 40)
            return (errors, summaries(state, name, megabytes << 20))
        }
    }

    /// The permission that a login lacks for a form; nil if it lacks none.
    package func missingPermission(
        _ form: FormParameters,
        changing name: String?,
        by requester: BucketForm.Requester
    ) -> Permission? {
        let existing = name.flatMap { cluster.state.bucket(named: $0) }?.settings
        let bucket = name ?? form[BucketField.name.rawValue] ?? ""
        return BucketForm.accessFields(of: form, changing: existing)
            .compactMap { $0.permission(bucket: bucket) }
            .first { !requester.allows($0) }
    }

    /// Creates a bucket; returns once it is agreed on and open on this node.
    ///
    /// - Throws: `AdministrationError` if it is not.
    package func create(
        _ form: FormParameters,
        by requester: BucketForm.Requester = .node
    ) async throws(AdministrationError) {
        let isCreated = try await carry(form, changing: nil, by: requester) {
            password throws(AdministrationError) in
            try await tryCreatingBucket(form, password)
        }
        guard isCreated else {
            throw .busy("Nodes or buckets are being changed by other requests. Retry.")
        }
    }

    /// Creates or changes a bucket by `attempt`, with the keys of the form's password; false if each
    /// round ended without a result, because other requests changed nodes or buckets meanwhile.
    private func carry(
        _ form: FormParameters,
        changing name: String?,
        by requester: BucketForm.Requester,
        _ attempt: ([UInt8]) async throws(AdministrationError) -> Bool
    ) async throws(AdministrationError) -> Bool {
        guard let password = await password(in: form) else { throw .stopping }
        for _ in 0..<Self.changesMax {
            let existing = name.flatMap { cluster.state.bucket(named: $0) }
            if let missing = missingPermission(form, changing: name, by: requester) {
                throw .forbidden(missing)
            }
            guard try await attempt(password) else { continue }
            logAccess(form, changing: existing, by: requester)
            return true
        }
        return false
    }

    /// False if nodes or buckets changed meanwhile and the form is still valid.
    private func tryCreatingBucket(
        _ form: FormParameters,
        _ password: [UInt8]
    ) async throws(AdministrationError) -> Bool {
        let state = cluster.state
        guard !state.activeNodes.isEmpty else {
            throw .busy("The cluster has no active node yet. Retry when it has one.")
        }
        guard state.buckets.count < state.settings.maxBucketCount else { throw tooMany(state) }
        let uuid = cluster.environment.entropy.hex(16)
        let ground = BucketForm.Ground(
            state: state,
            existing: nil,
            uuid: uuid,
            password: password
        )
        guard case .accepted(let settings, let options) = BucketForm.validate(form, on: ground)
        else {
            throw invalid(form, changing: nil)
        }
        let bucket = NewBucket(
            settings: settings,
            options: options,
            rows: rows(for: settings, state)
        )
        guard try await tryCarrying(.createBucket(bucket), form, changing: nil) else {
            return false
        }
        cluster.logEvent(
            .info,
            .bucket,
            of: settings.name,
            "Bucket \"\(settings.name)\" was created: \(settings.quota >> 20) MB on each node, "
                + "\(settings.evictionPolicy.rawValue), \(settings.vBuckets) vBuckets."
        )
        warnOfNetwork(settings, before: .none)
        return true
    }

    /// Warns the operator of a bucket that needs no password from the network from now on.
    private func warnOfNetwork(_ settings: BucketSettings, before: PasswordlessAccess) {
        guard settings.passwordless == .network, before != .network else { return }
        cluster.logEvent(
            .warning,
            .bucket,
            of: settings.name,
            Self.networkWarning(ofBucket: settings.name)
        )
    }

    /// The meaning of `passwordless=network` for a bucket, as a sentence for an operator.
    package static func networkWarning(ofBucket name: String) -> String {
        "Bucket \"\(name)\" needs no password from any address (passwordless=network): every client "
            + "that reaches its ports reads and writes its documents. Safer is a local user of the "
            + "bucket's name."
    }

    /// Changes a bucket's settings; done at once if nothing differs.
    ///
    /// - Parameters:
    ///   - name: The bucket.
    ///   - form: The settings to change; others stay.
    ///   - requester: The login that sent the request.
    ///   - revision: The `settingsRevision` that the bucket must have; nil for any.
    /// - Throws: `AdministrationError` if it is not changed.
    package func change(
        _ name: String,
        _ form: FormParameters,
        by requester: BucketForm.Requester = .node,
        ifRevision revision: String? = nil
    ) async throws(AdministrationError) {
        let isChanged = try await carry(form, changing: name, by: requester) {
            password throws(AdministrationError) in
            try await tryChangingBucket(name, form, password, revision)
        }
        guard isChanged else {
            throw .busy("The bucket is being changed by other requests. Reload and retry.")
        }
    }

    private static var changesMax: Int { 10 }

    /// Adds an event of a successful change of the access to a bucket, with the login.
    private func logAccess(
        _ form: FormParameters,
        changing existing: BucketRecord?,
        by requester: BucketForm.Requester
    ) {
        let fields = BucketForm.accessFields(of: form, changing: existing?.settings).map { field in
            field == .saslPassword
                ? field.rawValue : "\(field.rawValue)=\(form[field.rawValue] ?? "")"
        }
        guard !fields.isEmpty else { return }
        let name = existing?.settings.name ?? form[BucketField.name.rawValue] ?? ""
        cluster.logEvent(
            .info,
            .bucket,
            of: name,
            "The access to bucket \"\(name)\" was changed by \(requester.name): "
                + "\(fields.joined(separator: ", "))."
        )
    }

    /// The stored keys of a form's password; empty without one, nil if the node is stopping.
    private func password(in form: FormParameters) async -> [UInt8]? {
        guard let text = form["saslPassword"], !text.isEmpty else { return [] }
        return await users.credentials(of: text)
    }

    /// False if another request changed the bucket meanwhile.
    private func tryChangingBucket(
        _ name: String,
        _ form: FormParameters,
        _ password: [UInt8],
        _ revision: String?
    ) async throws(AdministrationError) -> Bool {
        let state = cluster.state
        let existing = try cluster.requireBucket(named: name)
        if let revision, revision != existing.settingsRevision { throw .differs }
        let ground = BucketForm.Ground(
            state: state,
            existing: existing,
            uuid: "",
            password: password
        )
        guard case .accepted(let settings, let options) = BucketForm.validate(form, on: ground)
        else {
            throw invalid(form, changing: name)
        }
        guard settings != existing.settings || options != existing.options else { return true }
        let was = BucketChange.Basis(settings: existing.settings, options: existing.options)
        let change = BucketChange(settings: settings, options: options, was: was)
        guard try await tryCarrying(.changeBucket(change), form, changing: name) else {
            return false
        }
        cluster.logEvent(.info, .bucket, of: name, "Bucket \"\(name)\" was changed.")
        warnOfNetwork(settings, before: existing.settings.passwordless)
        return true
    }

    /// Deletes a bucket; returns when no node serves it any more.
    ///
    /// A node that is cut off serves reads and writes until its lease ends, without knowing of the
    /// deletion. Until then the name stays reserved (`Reconciler.finishDeletions`).
    ///
    /// - Throws: `AdministrationError`; `failed` if the deletion is not complete in time.
    package func delete(_ name: String) async throws(AdministrationError) {
        let bucket = try cluster.requireBucket(named: name)
        let step = BucketStep(name: name, uuid: bucket.settings.uuid, phase: .begin)
        guard try await tryCarrying(.deleteBucket(step), FormParameters([]), changing: name) else {
            throw .unknown
        }
        cluster.logEvent(.info, .bucket, of: name, "Bucket \"\(name)\" was deleted.")
        let isOver = await cluster.whenChanged(within: Self.deletionTimeoutNanoseconds) { state in
            !state.deletedBuckets.contains { $0.uuid == bucket.settings.uuid }
        }
        guard isOver else { throw .failed("Bucket deletion not yet complete, but will continue.") }
    }

    private static var deletionTimeoutNanoseconds: UInt64 { 30_000_000_000 }

    /// Empties a bucket on all nodes; returns when every active copy is empty, or the bucket
    /// deleted.
    ///
    /// If another flush is running, copies that it has emptied may have new documents. So this
    /// flush begins after it; a flush that another request begins then is as good, since it began
    /// after this call.
    ///
    /// - Throws: `AdministrationError`; `late` if some copy is not empty in time.
    package func flush(_ name: String) async throws(AdministrationError) {
        let bucket = try cluster.requireBucket(named: name)
        guard bucket.settings.flushEnabled else { throw .flushDisabled }
        let uuid = bucket.settings.uuid
        let deadline = cluster.monotonicNanoseconds + Self.flushTimeoutNanoseconds
        let late = AdministrationError.late(
            "Not all nodes have emptied their copies yet. Each does so once it runs and its disk "
                + "works."
        )
        if try await !beginFlush(name, uuid) {
            let earlier = cluster.state.bucket(named: name)?.flush
            guard await whenFlushed(name, uuid, of: earlier, until: deadline) else { throw late }
            _ = try await beginFlush(name, uuid)
        }
        guard await whenFlushed(name, uuid, of: nil, until: deadline) else { throw late }
        // The bucket was deleted meanwhile: a node that missed both may still have its documents.
        guard cluster.state.bucket(named: name)?.settings.uuid == uuid else { throw .unknown }
        cluster.logEvent(.info, .bucket, of: name, "Bucket \"\(name)\" was flushed.")
    }

    /// False if another flush is running.
    private func beginFlush(
        _ name: String,
        _ uuid: String
    ) async throws(AdministrationError) -> Bool {
        let begin = BucketStep(name: name, uuid: uuid, phase: .begin)
        let outcome: Cluster.Outcome
        do throws(ClusterError) {
            outcome = try await cluster.propose(.flushBucket(begin))
        } catch {
            throw .failed("The cluster did not agree on the flush: \(error)")
        }
        switch outcome {
        // If this node's disk refused, which is logged, the copies are emptied one by one.
        case .done, .failed: return true
        case .refused(.flushRunning): return false
        case .refused(.bucketUnknown): throw .unknown
        case .refused(.flushDisabled): throw .flushDisabled
        case .refused(.rebalanceRunning): throw Self.rebalanceRuns
        case .refused(let refusal):
            throw .failed("The bucket cannot be flushed now. \(refusal.sentence)")
        }
    }

    private static let rebalanceRuns = AdministrationError.busy(
        "Cannot create, empty or delete buckets during rebalance"
    )

    /// Waits until this flush (any flush if nil) is over, or the bucket deleted; false at the
    /// deadline.
    private func whenFlushed(
        _ name: String,
        _ uuid: String,
        of flush: UInt64?,
        until deadline: UInt64
    ) async -> Bool {
        let now = cluster.monotonicNanoseconds
        return await cluster.whenChanged(within: deadline - min(deadline, now)) { state in
            guard let bucket = state.bucket(named: name), bucket.settings.uuid == uuid,
                let running = bucket.flush
            else { return true }
            return flush.map { $0 != running } ?? false
        }
    }

    private static var flushTimeoutNanoseconds: UInt64 { 30_000_000_000 }

    /// The chains of a new bucket.
    private func rows(for settings: BucketSettings, _ state: ClusterState) -> [NodeChain] {
        InitialPlacement.rows(
            vBuckets: settings.vBuckets,
            nodes: state.activeNodes.map { PlacementNode($0.number, group: $0.group) },
            copies: settings.replicas + 1
        ).map { NodeChain($0) ?? NodeChain() }
    }

    // MARK: Parts

    private func tooMany(_ state: ClusterState) -> AdministrationError {
        .refused("Cannot create more than \(state.settings.maxBucketCount) buckets")
    }

    private func invalid(_ form: FormParameters, changing name: String?) -> AdministrationError {
        guard let (errors, summaries) = validate(form, changing: name) else { return .unknown }
        return .invalid(errors, summaries)
    }

    /// False if its basis was changed meanwhile and the form is still valid.
    private func tryCarrying(
        _ command: ClusterCommand,
        _ form: FormParameters,
        changing name: String?
    ) async throws(AdministrationError) -> Bool {
        switch try await cluster.proposeChange(command) {
        case .done: return true
        case .failed(let error):
            cluster.logEvent(.error, .bucket, "A bucket could not be opened: \(error)")
            throw .failed("The bucket could not be opened: \(error)")
        case .refused(.changedMeanwhile): return false
        case .refused(.bucketUnknown): throw .unknown
        case .refused(.rebalanceRunning): throw Self.rebalanceRuns
        case .refused(.bucketBeingDeleted):
            throw .failed(
                "Bucket with given name still exists: it is being deleted, and not all nodes have "
                    + "confirmed that. Retry in a moment"
            )
        case .refused(.tooManyBuckets): throw tooMany(cluster.state)
        case .refused(let refusal):
            try validateAgain(form, changing: name, after: refusal)
            return false
        }
    }

    /// Checks the form again by the current state, after another request came first in the log, to
    /// report errors by field.
    ///
    /// - Throws: `AdministrationError` unless the request can be repeated, because the form has no errors
    ///   now.
    private func validateAgain(
        _ form: FormParameters,
        changing name: String?,
        after refusal: ClusterRefusal
    ) throws(AdministrationError) {
        guard let (errors, summaries) = validate(form, changing: name) else { throw .unknown }
        if !errors.isEmpty { throw .invalid(errors, summaries) }
        switch refusal {
        case .bucketExists, .memoryQuotaExceeded, .rowsImpossible: return
        default: throw .failed(refusal.sentence)
        }
    }

    private func summaries(
        _ state: ClusterState,
        _ name: String?,
        _ quota: UInt64
    ) -> BucketSummaries {
        var usage = BucketSummaries.Usage()
        for bucket in state.buckets.map(\.settings.name) {
            guard let statistics = cluster.dataPlane.statistics(ofBucket: bucket) else { continue }
            if bucket == name {
                usage.thisMemory = statistics[.memoryUsed]
                usage.thisDisk = statistics[.diskUsed]
            } else {
                usage.otherDisk += statistics[.diskUsed]
            }
        }
        if let space = cluster.diskSpace {
            usage.diskTotal = space.total
            usage.diskFree = space.free
        }
        return BucketSummaries(state: state, name: name, quota: quota, usage: usage)
    }
}
