internal import Persistence
internal import Seams

/// A node's first start in a directory.
extension ClusterMember {
    /// Founds a group of this node alone.
    ///
    /// - Throws: `ClusterError` or `DiskError` if the directory cannot be read or written, or has
    ///   buckets without a state.
    static func found(
        _ store: ControlStore,
        _ dependencies: Dependencies
    ) throws {
        try refuseBuckets(store, dependencies)
        let (entropy, quota) = (dependencies.environment.entropy, dependencies.memoryQuota)
        _ = try reset(store, entropy, memoryQuota: quota)
    }

    /// Refuses to found a group in a directory with buckets: a new node would delete them.
    ///
    /// - Throws: `ClusterError` with the code `.damaged` if there are buckets.
    private static func refuseBuckets(
        _ store: ControlStore,
        _ dependencies: Dependencies
    ) throws {
        let disk = dependencies.environment.disk
        let buckets = "\(dependencies.directory)/buckets"
        for name in try disk.list(buckets) where !name.contains("~") {
            guard try disk.read("\(buckets)/\(name)/bucket.divan") != nil else { continue }
            throw ClusterError(
                code: .damaged,
                description: "\(store.path) is missing or empty, but \(buckets) is not: without "
                    + "that file the node's identity and its buckets are unknown. Nothing was "
                    + "changed. Restore the file from the backup that the buckets are from; or "
                    + "fail the node over, eject it from its cluster, empty its directory and add "
                    + "it again."
            )
        }
    }
}
