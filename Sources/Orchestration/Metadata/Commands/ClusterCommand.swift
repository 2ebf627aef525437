package import Vocabulary

/// Every change anyone may propose to the cluster's state.
///
/// A command is a difference, and holds whatever is random or timed. Commands about who owns a
/// vBucket name fence and stage that they were made on: where those are others by then, that
/// vBucket is left out, and the rest applies.
package enum ClusterCommand: Hashable, Sendable {
    // MARK: The cluster

    /// Begins the cluster's life.
    case initialise(Initialisation)
    case setAdministrator(Administrator)
    case setName(String)
    /// Bytes on each node.
    case setMemoryQuota(UInt64)
    /// `was`: what was read before they were changed; somebody else's change in between refuses it.
    case setSettings(ClusterSettings, was: ClusterSettings? = nil)
    case resetAutoFailoverCount
    /// Another Raft group begins with what is left; revisions count anew after it.
    case newEpoch(NewEpoch)

    // MARK: Nodes

    /// The first node is active; others are joining. The outcome tells the number.
    case addNode(NewNode)
    /// Where a node is reached.
    case setNode(NodeAddress)
    /// Where clients from outside reach it.
    case setAlternate(AlternateChange)
    case setNodeState(NodeStateChange)
    case removeNode(NodeNumber)
    case setGroups(GroupLayout)

    // MARK: Buckets

    case createBucket(NewBucket)
    /// What may change of settings and options; placements stay as they are.
    case changeBucket(BucketChange)
    case deleteBucket(BucketStep)
    case flushBucket(BucketStep)

    // MARK: Rebalance

    case startRebalance(RebalanceRecord)
    case setTargets(TargetChange)
    case markRebalance(ProgressStep)
    case endRebalance(RebalanceOutcome)
    /// The attempt of this id is not made.
    case dropRetry(id: String)

    // MARK: Ownership

    /// From now on both chains count; the row is the target that was built.
    case joint(VBucketSteps)
    /// The second chain alone counts; the active one stays.
    case final(VBucketSteps)
    /// The same with a new active one; the position is the former one's last word.
    case takeOver(VBucketSteps)
    /// The sealed copies' best becomes active, once confirmed; row and position are needed.
    case promote(VBucketSteps)
    /// Who was promoted is ready.
    case confirm(VBucketSteps)
    /// The same active one under a new fence: ends a seal or a joint phase.
    case resume(VBucketSteps)
    /// The former active one need not keep its copy any more.
    case release(VBucketSteps)
    /// A vBucket that lost all copies begins again, empty; the row says where.
    case recreate(VBucketSteps)
    /// The nodes leave every chain in which others are left to serve.
    case failOver(FailoverStep)
}

/// A command on its way through the log.
///
/// - The same (proposer, boot, number) is applied once, however often it was agreed on.
package struct ClusterEnvelope: Hashable, Sendable {
    package var proposer: NodeNumber
    /// Another one after each start of the proposer.
    package var boot: UInt64
    /// From 1 in each life; 0 is never taken for a repetition.
    package var number: UInt64
    package var command: ClusterCommand
    /// What the command is judged by, on every node and also when the log is read again.
    package var rules = ClusterRules.current

    package init(proposer: NodeNumber, boot: UInt64, number: UInt64, command: ClusterCommand) {
        self.proposer = proposer
        self.boot = boot
        self.number = number
        self.command = command
    }
}
