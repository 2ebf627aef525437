package import Vocabulary

/// The result of applying a command.
package enum ClusterOutcome: Hashable, Sendable {
    case applied([ClusterEffect])
    /// The state is unchanged, because the command does not fit it.
    case refused(ClusterRefusal)
    /// The state is unchanged, because this proposal was already applied.
    case repeated

    package var effects: [ClusterEffect] {
        if case .applied(let effects) = self { return effects }
        return []
    }
}

/// A change that a command made, for the services that carry out the state.
package enum ClusterEffect: Hashable, Sendable {
    /// Nodes, addresses, groups or the cluster's name changed.
    case nodesChanged
    case nodeAdded(NodeNumber)
    case nodeRemoved(NodeNumber)
    case administratorChanged
    /// Local users were created, changed or deleted, by their ids.
    case usersChanged([String])
    case settingsChanged
    case epochChanged
    /// The bucket and all its assignments are new.
    case bucketCreated(name: String)
    /// Settings or options of the bucket changed.
    case bucketChanged(name: String)
    /// The bucket's copies are empty from this index on.
    case bucketFlushed(name: String)
    case bucketDeleted(name: String)
    /// Design documents of the bucket changed.
    case designDocumentsChanged(bucket: String)
    case assignmentsChanged(bucket: String, [VBucketID])
    /// vBuckets that the command did not apply to, mostly because fence or stage had changed; after
    /// lost nodes, vBuckets that wait for a promotion.
    case leftOut(bucket: String, [VBucketID])
    /// Nodes that lost the right to write a vBucket and may not know it yet.
    case deposed([NodeNumber])
    /// The rebalance or its retry changed: started, next bucket, progress, ended.
    case rebalanceChanged
}

/// Why a command was refused.
package enum ClusterRefusal: CaseIterable, Hashable, Sendable {
    /// The proposal was refused when first applied, and the reason is not stored; or it is too old
    /// to know whether it was applied.
    case refusedBefore
    /// The object changed since the proposer read it: read it again and retry.
    case changedMeanwhile
    /// The command's login lacks the permission that it needs.
    case notPermitted
    case alreadyInitialised
    case notInitialised
    case bucketExists
    case bucketUnknown
    case tooManyBuckets
    /// A bucket of that name is still being deleted.
    case bucketBeingDeleted
    case flushRunning
    case flushNotRunning
    /// The bucket's settings do not allow a flush.
    case flushDisabled
    /// The buckets' memory quotas together would exceed the memory quota of a node.
    case memoryQuotaExceeded
    case designDocumentUnknown
    /// A design document's name or text is too long.
    case designDocumentTooLarge
    /// All design documents of the cluster together would be too large.
    case designDocumentsTooLarge
    /// All design documents of the cluster together would have too many views.
    case tooManyViews
    case userUnknown
    /// The administrator or a local user has this name.
    case userExists
    /// A user's name, full name or keys are not possible.
    case userImpossible
    /// There would be too many local users, or they would be too large together.
    case tooManyUsers
    /// Chains or targets do not fit the bucket, or name nodes that are not active.
    case rowsImpossible
    case nodeExists
    /// A node's machine cannot provide the memory quota.
    case nodeTooSmall
    case nodeUnknown
    /// A node announces a feature level below the cluster's.
    case levelTooLow
    /// Some member does not announce the feature level that the cluster is to have.
    case levelTooHigh
    /// No node number is left: numbers are never reused.
    case nodeNumbersUsedUp
    /// The node is active, holds data, takes part in a rebalance, or is the last active one.
    case nodeInUse
    /// Nodes to be failed over gracefully have the only copies of some vBuckets.
    case onlyCopies
    /// The membership change is not possible from the node's present state.
    case nodeStateImpossible
    case nodeNotActive
    case lastActiveNode
    case groupUnknown
    case groupInUse
    case rebalanceRunning
    case rebalanceNotRunning
    /// Kept and ejected nodes together are not exactly the cluster's nodes.
    case nodesMismatch
    /// There is no certificate authority with this id, or the cluster made it.
    case authorityUnknown
    /// All certificates of authorities together would be too large.
    case authoritiesTooLarge
}
