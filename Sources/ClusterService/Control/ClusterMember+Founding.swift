internal import Orchestration
internal import Persistence
internal import Seams

/// A node's first start in a directory.
extension ClusterMember {
    /// Makes a group of this node alone.
    ///
    /// The state of the release before is its first snapshot, if there is one.
    static func found(
        _ store: ControlStore,
        _ surroundings: Surroundings
    ) throws {
        let old = StateStore(disk: surroundings.environment.disk, directory: surroundings.directory)
        let before = try old.load()
        if before == nil { try refuseBuckets(store, surroundings) }
        let state = before ?? ClusterState(memoryQuota: surroundings.memoryQuota)
        var identity = NodeIdentity.found(surroundings.environment.entropy)
        if let known = state.node(number: identity.number) { identity.nodeUUID = known.uuid }
        identity.clusterUUID = state.uuid ?? ""
        if state.groupID != 0 { identity.groupID = state.groupID }
        try RaftBeginning.found(
            store,
            node: identity.number,
            state: state.encoded(),
            index: state.index,
            facts: [(NodeIdentity.fact, identity.bytes)]
        )
    }

    /// Who has buckets was somebody; as a new node it would remove them, as nobody's.
    private static func refuseBuckets(
        _ store: ControlStore,
        _ surroundings: Surroundings
    ) throws {
        let disk = surroundings.environment.disk
        let buckets = "\(surroundings.directory)/buckets"
        for name in try disk.list(buckets) where !name.contains("~") {
            guard try disk.read("\(buckets)/\(name)/bucket.divan") != nil else { continue }
            throw ClusterError(
                code: .damaged,
                description: "\(store.path) is missing or empty, and \(buckets) is not: without it "
                    + "nobody knows what this node was, and which buckets these are. Nothing was "
                    + "touched. Put the file back, from the backup that the buckets are of; or fail "
                    + "the node over, take it out of its cluster, empty its directory and add it "
                    + "again."
            )
        }
    }
}
