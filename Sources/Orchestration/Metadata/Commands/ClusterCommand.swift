package import Bytes
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
    /// Changes the authorities that operators loaded.
    case changeAuthorities(AuthorityChange)
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

/// Kinds are stored in logs, so their numbers never change.
extension ClusterCommand: Coded {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .initialise(let birth): writer.kind(1, birth)
        case .setAdministrator(let administrator): writer.kind(2, administrator)
        case .setName(let name): writer.kind(3, name)
        case .setMemoryQuota(let quota): writer.kind(4, quota)
        case .setSettings(let settings, let was): writer.kind(5, settings, was)
        case .resetAutoFailoverCount: writer.kind(6)
        case .newEpoch(let epoch): writer.kind(7, epoch)
        case .raiseFeatureLevel(let level): writer.kind(8, level)
        case .setIndexing(let change): writer.kind(9, change)
        case .putUser(let change): writer.kind(10, change)
        case .deleteUser(let id): writer.kind(11, id)
        case .changePassword(let change): writer.kind(12, change)
        case .renewSecret(let secret): writer.kind(13, secret)
        case .changeAuthorities(let change): writer.kind(14, change)
        case .addNode(let node): writer.kind(16, node)
        case .setNode(let address): writer.kind(17, address)
        case .setNodeState(let change): writer.kind(18, change)
        case .removeNode(let node): writer.kind(19, node)
        case .setGroups(let layout): writer.kind(20, layout)
        case .setAlternate(let change): writer.kind(21, change)
        case .createBucket(let bucket): writer.kind(32, bucket)
        case .changeBucket(let change): writer.kind(33, change)
        case .deleteBucket(let step): writer.kind(34, step)
        case .flushBucket(let step): writer.kind(35, step)
        case .putDesignDocument(let change): writer.kind(36, change)
        case .deleteDesignDocument(let removal):
            guard let was = removal.was else { return writer.kind(37, removal) }
            writer.kind(38, removal, was)
        case .startRebalance(let record): writer.kind(48, record)
        case .setTargets(let change): writer.kind(49, change)
        case .endRebalance(let outcome): writer.kind(50, outcome)
        case .markRebalance(let step): writer.kind(51, step)
        case .dropRetry(let id): writer.kind(52, id)
        case .joint(let steps): writer.kind(64, steps)
        case .final(let steps): writer.kind(65, steps)
        case .takeOver(let steps): writer.kind(66, steps)
        case .promote(let steps): writer.kind(67, steps)
        case .confirm(let steps): writer.kind(68, steps)
        case .resume(let steps): writer.kind(69, steps)
        case .release(let steps): writer.kind(70, steps)
        case .recreate(let steps): writer.kind(71, steps)
        case .failOver(let step): writer.kind(72, step)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("command") {
        case 1: self = .initialise(try reader.payload())
        case 2: self = .setAdministrator(try reader.payload())
        case 3: self = .setName(try reader.payload())
        case 4: self = .setMemoryQuota(try reader.payload())
        case 5: self = .setSettings(try reader.payload(), was: try reader.payload())
        case 6: self = .resetAutoFailoverCount
        case 7: self = .newEpoch(try reader.payload())
        case 8: self = .raiseFeatureLevel(try reader.payload())
        case 9: self = .setIndexing(try reader.payload())
        case 10: self = .putUser(try reader.payload())
        case 11: self = .deleteUser(id: try reader.payload())
        case 12: self = .changePassword(try reader.payload())
        case 13: self = .renewSecret(try reader.payload())
        case 14: self = .changeAuthorities(try reader.payload())
        case 16: self = .addNode(try reader.payload())
        case 17: self = .setNode(try reader.payload())
        case 18: self = .setNodeState(try reader.payload())
        case 19: self = .removeNode(try reader.payload())
        case 20: self = .setGroups(try reader.payload())
        case 21: self = .setAlternate(try reader.payload())
        case 32: self = .createBucket(try reader.payload())
        case 33: self = .changeBucket(try reader.payload())
        case 34: self = .deleteBucket(try reader.payload())
        case 35: self = .flushBucket(try reader.payload())
        case 36: self = .putDesignDocument(try reader.payload())
        case 37: self = .deleteDesignDocument(try reader.payload())
        case 38:
            var removal = try DesignDocumentRemoval(from: &reader)
            removal.was = try DesignRevision(from: &reader)
            self = .deleteDesignDocument(removal)
        case 48: self = .startRebalance(try reader.payload())
        case 49: self = .setTargets(try reader.payload())
        case 50: self = .endRebalance(try reader.payload())
        case 51: self = .markRebalance(try reader.payload())
        case 52: self = .dropRetry(id: try reader.payload())
        case 64: self = .joint(try reader.payload())
        case 65: self = .final(try reader.payload())
        case 66: self = .takeOver(try reader.payload())
        case 67: self = .promote(try reader.payload())
        case 68: self = .confirm(try reader.payload())
        case 69: self = .resume(try reader.payload())
        case 70: self = .release(try reader.payload())
        case 71: self = .recreate(try reader.payload())
        case 72: self = .failOver(try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}

/// A command as an entry of the log, with its proposer.
///
/// - A (proposer, boot, number) is applied once, however often the log contains it.
/// - No bytes may follow a decoded envelope. Fields that a release does not know are not skipped:
///   nodes that skipped them would make another state of the same log. So a new command, and a new
///   field of a command, is proposed only from its feature level on.
package struct ClusterEnvelope: Hashable, Sendable, CodedFields {
    package var proposer = NodeNumber(0)
    /// Random; differs after each start of the proposer.
    package var boot: UInt64 = 0
    /// From 1 on in each boot; number 0 is never treated as a repetition.
    package var number: UInt64 = 0
    /// The administrator or local user that ordered the command, as the proposer states it; nil if a
    /// rule of the cluster did.
    package var login: String?
    package var command = ClusterCommand.resetAutoFailoverCount

    package init() {}

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

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        // Every number is valid, including 0, which no node has.
        var node = proposer.value
        try coder.field(&node, "proposer")
        proposer = NodeNumber(node)
        try coder.fixed(&boot, "boot")
        try coder.field(&number, "number")
        try coder.optional(&login, "login")
        try coder.field(&command, "command")
    }
}
