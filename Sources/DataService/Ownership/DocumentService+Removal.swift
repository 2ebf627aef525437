internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Dropping copies that the map removes or that have to be rebuilt.
///
/// The disk comes first, on the lane that commits, so that nothing of the next copy is written
/// before; then memory. Meanwhile the copy is neither written to nor flushed
/// (`Ownership.isResetting`).
extension DocumentService {
    private static let retryNanoseconds: UInt64 = 1_000_000_000

    /// Drops copies that this node no longer has or that begin empty; those of one file in one
    /// commit.
    func drop(
        _ vBuckets: [VBucketID],
        of bucket: OpenBucket,
        _ dropped: @escaping @Sendable (VBucketID) -> Void
    ) {
        guard let disk = bucket.disk else {
            for id in vBuckets { forget(id, of: bucket) { dropped(id) } }
            return
        }
        let byFile = Dictionary(grouping: vBuckets) { disk.file(of: $0).number }
        for (_, ids) in byFile.sorted(by: { $0.key < $1.key }) {
            forget(ids, of: bucket, disk: disk, done: dropped)
        }
    }

    /// Empties a copy that follows `fence`, then calls `done` from any lane.
    func reset(
        _ id: VBucketID,
        of bucket: OpenBucket,
        fence: UInt64,
        _ done: @escaping @Sendable () -> Void
    ) {
        guard let vBucket = bucket.engine[id.number] else { return }
        let isDue = vBucket.withCore { core in
            guard core.follows(fence) else { return false }
            core.beginReset()
            return true
        }
        guard isDue else { return done() }
        if let disk = bucket.disk {
            forget([id], of: bucket, disk: disk) { _ in done() }
        } else {
            forget(id, of: bucket, done)
        }
    }

    /// Whether the copy still has to be emptied: after the first request has emptied it, it may
    /// have new data.
    private func isDue(_ id: VBucketID, of bucket: OpenBucket) -> Bool {
        bucket.engine[id.number]?.withCore { $0.ownership.isResetting } ?? false
    }

    /// Drops a copy without a disk.
    private func forget(
        _ id: VBucketID,
        of bucket: OpenBucket,
        _ done: @escaping @Sendable () -> Void
    ) {
        lanes.nonIO.lane.post { [self] in
            if isDue(id, of: bucket) { empty(id, of: bucket) }
            done()
        }
    }

    /// Drops copies of one file once none of them is being loaded: loading would restore the data.
    private func forget(
        _ ids: [VBucketID],
        of bucket: OpenBucket,
        disk: BucketDisk,
        done: @escaping @Sendable (VBucketID) -> Void
    ) {
        let gathered = Guarded((left: ids.count, loaded: [VBucketID]()))
        for id in ids {
            disk.warmup.whenForgettable(id) { [self] completion in
                var isLoaded = false
                if case .ready = completion { isLoaded = true }
                let loaded: [VBucketID]? = gathered.withLock { gathered in
                    gathered.left -= 1
                    if isLoaded { gathered.loaded.append(id) }
                    return gathered.left == 0 ? gathered.loaded.sorted() : nil
                }
                // The file is closed, so that nothing of it can be loaded.
                if !isLoaded { done(id) }
                guard let loaded, let first = loaded.first else { return }
                lanes.writer(ofLane: disk.file(of: first).number).lane.post { [self] in
                    erase(loaded, of: bucket, file: disk.file(of: first), done: done)
                }
            }
        }
    }

    /// Erases copies from their file and from memory, on the writer lane.
    private func erase(
        _ ids: [VBucketID],
        of bucket: OpenBucket,
        file: LaneStore,
        done: @escaping @Sendable (VBucketID) -> Void
    ) {
        let due = ids.filter { isDue($0, of: bucket) }
        do throws(StorageError) {
            try file.drop(due)
            for id in due { empty(id, of: bucket) }
            for id in ids { done(id) }
        } catch {
            guard error.code != .gone, !bucket.isRetired else {
                for id in ids { done(id) }
                return
            }
            let what = due.count == 1 ? "\(due[0])" : "\(due.count) vBuckets"
            environment.trace.error(
                "storage",
                "dropping \(what) failed and is retried: \(error.description)"
            )
            lanes.writer(ofLane: file.number).lane.post(
                after: DocumentService.retryNanoseconds
            ) { [self] in
                erase(ids, of: bucket, file: file, done: done)
            }
        }
    }

    private func empty(_ id: VBucketID, of bucket: OpenBucket) {
        let uuid = newUUID()
        bucket.engine[id.number]?.withCore { $0.endReset(uuid) }
        bucket.traffic.notify(.ownership, of: id)
        bucket.disk?.markDirty(id)
    }
}
