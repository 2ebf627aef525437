package import Vocabulary

/// Every change that may be proposed to the cluster state.
///
/// A command is a difference and contains everything random or timed. Commands about the ownership
/// of vBuckets name the fence and stage that they are based on. If a vBucket's fence or stage has
/// changed when the command is applied, that vBucket is left out and the rest applies.
package enum ClusterCommand: Hashable, Sendable {
    // MARK: The cluster

    /// Provisions the cluster.
    case initialise(Initialisation)
    case setAdministrator(Administrator)
    case setName(String)
    /// Bytes on each node.
    case setMemoryQuota(UInt64)
    /// `was`: the settings that the change is based on; refused if they have changed since. Nil
    /// applies the change in any case.
    case setSettings(ClusterSettings, was: ClusterSettings? = nil)
    /// Sets how indexes are updated, built and compacted; from feature level `designDocuments` on.
    case setIndexing(IndexingChange)
    case resetAutoFailoverCount
    /// Starts another Raft group with the survivors; raises `revEpoch`.
    case newEpoch(NewEpoch)

    /// Replaces the secret that the members share.
    case renewSecret(SharedSecret)
    /// Features of this level are used from now on: all members announce it.
    case raiseFeatureLevel(FeatureLevel)

    // MARK: Users

    /// Creates a local user or replaces its name and roles; from feature level `localUsers` on.
    case putUser(UserChange)
    case deleteUser(id: String)
    case changePassword(PasswordChange)

    // MARK: Nodes

    /// The first node becomes active, later ones joining. The outcome contains the node's number.
    case addNode(NewNode)
    /// Sets a node's host, ports and memory.
    case setNode(NodeAddress)
    /// Sets or removes a node's address for clients outside the cluster's network.
    case setAlternate(AlternateChange)
    /// Sets a node's port for views; from feature level `designDocuments` on.
    case setNodeState(NodeStateChange)
    case removeNode(NodeNumber)
    case setGroups(GroupLayout)

    // MARK: Buckets

    case createBucket(NewBucket)
    /// Changes settings and options; chains stay as they are.
    case changeBucket(BucketChange)
    case deleteBucket(BucketStep)
    case flushBucket(BucketStep)
    /// Creates or replaces a design document; from feature level `designDocuments` on.
    case putDesignDocument(DesignDocumentChange)
    case deleteDesignDocument(DesignDocumentRemoval)

    // MARK: Rebalance

    case startRebalance(RebalanceRecord)
    case setTargets(TargetChange)
    case markRebalance(ProgressStep)
    case endRebalance(RebalanceOutcome)
    /// Cancels the pending retry with this id.
    case dropRetry(id: String)

    // MARK: Ownership

    /// Begins the joint phase: both chains count. The row is the target, whose copies are built.
    case joint(VBucketSteps)
    /// Ends the joint phase: the target chain alone counts. The active node stays.
    case final(VBucketSteps)
    /// Ends the joint phase with a new active node; the position is the former one's final
    /// position.
    case takeOver(VBucketSteps)
    /// Promotes the best of the sealed copies, which serves once confirmed; needs row and position.
    case promote(VBucketSteps)
    /// The promoted copy is ready and may serve.
    case confirm(VBucketSteps)
    /// Keeps the active node under a new fence: reverts a seal or a joint phase.
    case resume(VBucketSteps)
    /// Allows the former active node to drop its copy.
    case release(VBucketSteps)
    /// Recreates a vBucket that lost all copies, empty; the row is its new chain.
    case recreate(VBucketSteps)
    /// Fails the nodes over, and removes them from every chain whose active node stays.
    case failOver(FailoverStep)
}

/// A command as an entry of the log, with its proposer.
///
/// - A (proposer, boot, number) is applied once, however often the log contains it.
package struct ClusterEnvelope: Hashable, Sendable {
    package var proposer: NodeNumber
    /// Random; differs after each start of the proposer.
    package var boot: UInt64
    /// From 1 on in each boot; number 0 is never treated as a repetition.
    package var number: UInt64
    /// The administrator or local user that ordered the command, as the proposer states it; nil if a
    /// rule of the cluster did.
    package var login: String?
    package var command: ClusterCommand

    package init(
        proposer: NodeNumber,
        boot: UInt64,
        number: UInt64,
        login: String? = nil,
        command: ClusterCommand
    ) {
        self.proposer = proposer
        self.boot = boot
        self.number = number
        // No login has an empty name.
        self.login = login?.isEmpty == true ? nil : login
        self.command = command
    }
}
