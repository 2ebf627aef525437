package import Vocabulary

/// What a command did to the state.
package enum ClusterOutcome: Hashable, Sendable {
    case applied([ClusterEffect])
    /// Nothing happened: what it was based on is no longer so.
    case refused(ClusterRefusal)
    /// Nothing happened now: this proposal did all it asked for when it first came.
    case repeated

    package var effects: [ClusterEffect] {
        if case .applied(let effects) = self { return effects }
        return []
    }
}

/// What whoever carries the state out has to see to.
package enum ClusterEffect: Hashable, Sendable {
    /// Nodes, ports, groups or the cluster's name are others now.
    case nodesChanged
    case nodeAdded(NodeNumber)
    case nodeRemoved(NodeNumber)
    case administratorChanged
    case settingsChanged
    case epochChanged
    /// With all its assignments.
    case bucketCreated(name: String)
    /// Settings or options.
    case bucketChanged(name: String)
    /// Its copies are empty from this fence on.
    case bucketFlushed(name: String)
    case bucketDeleted(name: String)
    case assignmentsChanged(bucket: String, [VBucketID])
    /// vBuckets whose fence or stage was another by then.
    case leftOut(bucket: String, [VBucketID])
    /// Something was taken from them that they may still believe to own.
    case deposed([NodeNumber])
    /// It began, went on to another bucket, or ended.
    case rebalanceChanged
}

/// Why a command came to nothing.
package enum ClusterRefusal: CaseIterable, Hashable, Sendable {
    /// So it was when it first came, why is not remembered; or it is too old to tell.
    case refusedBefore
    /// What the change rests on is something else by now: it is to be judged anew.
    case changedMeanwhile
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
    /// Rows or targets that do not fit the bucket, or name nodes that are not active.
    case rowsImpossible
    case nodeExists
    /// A node's machine cannot give the memory quota.
    case nodeTooSmall
    case nodeUnknown
    /// No number is ever given twice.
    case nodeNumbersUsedUp
    /// It is active, holds data, or is the last one.
    case nodeInUse
    /// Nodes that are to be failed over gracefully have vBuckets that no other node has a copy of.
    case onlyCopies
    /// The node cannot become what was asked for from what it is.
    case nodeStateImpossible
    case nodeNotActive
    case lastActiveNode
    case groupUnknown
    case groupInUse
    case rebalanceRunning
    case rebalanceNotRunning
    /// Kept and ejected nodes are not all that there are.
    case nodesMismatch
}
