internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

extension AdministrationService {
    /// Applies, keeps, carries out, tells; on the control lane.
    func commit(_ command: ClusterCommand) -> Result<Outcome, ClusterError> {
        let before = state
        var next = before
        let outcome = next.apply(command, at: next.index + 1)
        guard case .applied(let effects) = outcome else {
            if case .refused(let refusal) = outcome { return .success(.refused(refusal)) }
            return .success(.done)
        }
        do {
            let store = StateStore(disk: environment.disk, directory: settings.directory)
            try store.keep(next)
        } catch {
            tell(.error, .node, error.description)
            return .failure(error)
        }
        core.withLock { $0.state = next }
        for effect in effects {
            do {
                try carryOut(effect, before: before, now: next)
            } catch {
                return takeBack(effect, because: error)
            }
        }
        if !effects.isEmpty { tellWatchers() }
        return .success(.done)
    }

    private func carryOut(
        _ effect: ClusterEffect,
        before: ClusterState,
        now: ClusterState
    ) throws(DataPlaneError) {
        switch effect {
        case .nodesChanged:
            publishAll()
        case .administratorChanged:
            if let old = before.administrator, old.name != now.administrator?.name {
                dataPlane.setCredentials(user: old.name, stored: nil)
            }
            if let new = now.administrator {
                dataPlane.setCredentials(user: new.name, stored: new.stored)
            }
        case .bucketCreated(let name):
            guard let bucket = now.bucket(named: name) else { return }
            try dataPlane.open(bucket.settings)
            sampler.begin(bucket: name, dataPlane.statistics(ofBucket: name))
            publish(bucket, of: now)
        case .bucketChanged(let name):
            guard let bucket = now.bucket(named: name) else { return }
            dataPlane.change(bucket.settings)
            publish(bucket, of: now)
        case .bucketDeleted(let name):
            dataPlane.delete(bucket: name)
            sampler.forget(bucket: name)
        }
    }

    /// A bucket that cannot be opened must not stay behind: nobody could use or explain it.
    private func takeBack(
        _ effect: ClusterEffect,
        because error: DataPlaneError
    ) -> Result<Outcome, ClusterError> {
        guard case .bucketCreated(let name) = effect, let bucket = state.bucket(named: name) else {
            return .success(.failed(error))
        }
        let deletion = ClusterCommand.deleteBucket(name: name, uuid: bucket.settings.uuid)
        if case .failure(let failure) = commit(deletion) { return .failure(failure) }
        return .success(.failed(error))
    }

    func publishAll() {
        let state = state
        dataPlane.publish(
            global: Configuration(
                revEpoch: state.revEpoch,
                rev: state.rev,
                json: ConfigurationJSON.global(state, on: thisNode, host: .placeholder)
            )
        )
        for bucket in state.buckets { publish(bucket, of: state) }
    }

    private func publish(_ bucket: BucketRecord, of state: ClusterState) {
        let json = ConfigurationJSON.bucket(bucket, of: state, on: thisNode, host: .placeholder)
        dataPlane.publish(
            Configuration(revEpoch: state.revEpoch, rev: bucket.rev, json: json),
            ofBucket: bucket.settings.name
        )
    }
}
