/// Every change anyone may propose to the cluster's state.
package enum ClusterCommand: Hashable, Sendable {
    /// Begins the cluster's life: its UUID and who administers it.
    case initialise(uuid: String, administrator: Administrator)
    case setAdministrator(Administrator)
    case setName(String)
    /// Bytes on each node.
    case setMemoryQuota(UInt64)
    /// Adds a node, or changes where it is reached.
    case setNode(NodeRecord)
    case createBucket(BucketRecord)
    /// Replaces settings, options and rows of the bucket with that name and UUID.
    case changeBucket(BucketRecord)
    case deleteBucket(name: String, uuid: String)
    case setSettings(ClusterSettings)
}

/// What a command did to the state.
package enum ClusterOutcome: Hashable, Sendable {
    case applied([ClusterEffect])
    /// Nothing happened: what it was based on is no longer so.
    case refused(ClusterRefusal)
}

/// What whoever carries the state out has to see to.
package enum ClusterEffect: Hashable, Sendable {
    /// Nodes, ports or the cluster's name are others now.
    case nodesChanged
    case administratorChanged
    case bucketCreated(name: String)
    case bucketChanged(name: String)
    case bucketDeleted(name: String)
}

/// Why a command came to nothing.
package enum ClusterRefusal: Hashable, Sendable {
    case alreadyInitialised
    case notInitialised
    case bucketExists
    case bucketUnknown
    case tooManyBuckets
}
