package import Vocabulary

/// The initial settings of a cluster, in one entry: if two are proposed, the second changes
/// nothing.
package struct Initialisation: Hashable, Sendable {
    package var uuid: String
    package var groupID: UInt64
    package var administrator: Administrator
    /// Bytes on each node; nil leaves the quota as it is.
    package var memoryQuota: UInt64?
    /// Nil leaves the name as it is.
    package var name: String?

    package init(uuid: String, groupID: UInt64, administrator: Administrator) {
        self.uuid = uuid
        self.groupID = groupID
        self.administrator = administrator
    }
}

/// A new epoch, which an operator orders if a majority is permanently lost.
package struct NewEpoch: Hashable, Sendable {
    /// Random and never used before: nodes reject messages of other groups.
    package var groupID: UInt64
    /// The group that the survivors leave.
    package var formerGroupID: UInt64
    /// All other nodes are left behind.
    package var survivors: [NodeNumber]
    /// By the proposer's clock, since the Unix epoch: the end time of an interrupted rebalance.
    package var beganMilliseconds: UInt64
    /// The administrator or local user that ordered it.
    package var login: String?

    package init(
        groupID: UInt64,
        formerGroupID: UInt64,
        survivors: [NodeNumber],
        beganMilliseconds: UInt64
    ) {
        self.groupID = groupID
        self.formerGroupID = formerGroupID
        self.survivors = survivors
        self.beganMilliseconds = beganMilliseconds
    }
}

/// A node that joins the cluster.
package struct NewNode: Hashable, Sendable {
    package var uuid: String
    package var host: String
    package var ports: NodePorts
    package var keys: NodeKeys
    package var group: String
    package var services: [String]
    /// The `ClusterState.namesRevision` that its host was checked against; nil if it was not
    /// checked.
    package var namesRevision: UInt32?
    /// Bytes of memory that its machine provides; 0 if not reported.
    package var memoryTotal: UInt64 = 0
    /// The highest feature level that it announces.
    package var level = FeatureLevel.current

    package init(
        uuid: String,
        host: String,
        ports: NodePorts,
        keys: NodeKeys,
        group: String = ServerGroup.first.name,
        services: [String] = ["kv"]
    ) {
        self.uuid = uuid
        self.host = host
        self.ports = ports
        self.keys = keys
        self.group = group
        self.services = services
    }
}

/// A node's present address and memory.
package struct NodeAddress: Hashable, Sendable {
    package var number: NodeNumber
    package var host: String
    package var ports: NodePorts
    /// Renames a node that is alone: refused if the cluster has another node by then.
    package var isOfLoneNode = false
    /// Bytes of memory that its machine provides; 0 keeps the known value.
    package var memoryTotal: UInt64 = 0
    /// The highest feature level that it announces; nil leaves what is known.
    package var level: FeatureLevel?

    package init(number: NodeNumber, host: String, ports: NodePorts) {
        self.number = number
        self.host = host
        self.ports = ports
    }
}

/// A change of a node's address for clients outside the cluster's network.
package struct AlternateChange: Hashable, Sendable {
    package var number: NodeNumber
    /// Nil removes the address.
    package var address: AlternateAddress?

    package init(number: NodeNumber, address: AlternateAddress?) {
        self.number = number
        self.address = address
    }
}

/// A change of a node's membership and recovery type.
package struct NodeStateChange: Hashable, Sendable {
    package var number: NodeNumber
    package var membership: NodeMembership
    package var recovery: RecoveryType

    package init(
        number: NodeNumber,
        membership: NodeMembership,
        recovery: RecoveryType = .none
    ) {
        self.number = number
        self.membership = membership
        self.recovery = recovery
    }
}

/// All server groups, and the nodes in each; nodes that are not listed stay in their group.
package struct GroupLayout: Hashable, Sendable {
    /// The assignment of one node to a group.
    package struct Member: Hashable, Sendable {
        package var node: NodeNumber
        /// The group's name.
        package var group: String

        package init(node: NodeNumber, group: String) {
            self.node = node
            self.group = group
        }
    }

    package var groups: [ServerGroup]
    package var members: [Member]
    /// The `ClusterState.groupsRevision` that this change is based on; nil applies it in any case.
    package var revision: UInt32?

    package init(groups: [ServerGroup], members: [Member], revision: UInt32? = nil) {
        self.groups = groups
        self.members = members
        self.revision = revision
    }
}

/// A bucket to be created, with its chains.
package struct NewBucket: Hashable, Sendable {
    package var settings: BucketSettings
    package var options: BucketOptions
    /// The chain of each vBucket, by number.
    package var rows: [NodeChain]

    package init(settings: BucketSettings, options: BucketOptions, rows: [NodeChain]) {
        self.settings = settings
        self.options = options
        self.rows = rows
    }
}

/// A change of a bucket's settings; name, UUID, type and number of vBuckets never change.
package struct BucketChange: Hashable, Sendable {
    /// The settings and options that a change is based on.
    package struct Basis: Hashable, Sendable {
        package var settings: BucketSettings
        package var options: BucketOptions

        package init(settings: BucketSettings, options: BucketOptions) {
            self.settings = settings
            self.options = options
        }
    }

    package var settings: BucketSettings
    package var options: BucketOptions
    /// The change is refused if the bucket differs from this; nil applies it in any case.
    package var was: Basis?

    package init(settings: BucketSettings, options: BucketOptions, was: Basis? = nil) {
        self.settings = settings
        self.options = options
        self.was = was
    }
}

/// One of the two steps of a bucket deletion or flush: `begin`, then `end` after every node did it.
package struct BucketStep: Hashable, Sendable {
    package enum Phase: UInt8, Sendable {
        case begin = 0
        case end = 1
    }

    package var name: String
    package var uuid: String
    package var phase: Phase
    /// The index of the entry that began the flush that ends here; 0 in all other steps.
    ///
    /// A former leader may propose the end of an earlier flush while another flush runs.
    package var flush: UInt64

    package init(name: String, uuid: String, phase: Phase, flush: UInt64 = 0) {
        self.name = name
        self.uuid = uuid
        self.phase = phase
        self.flush = flush
    }
}

/// A design document's new text.
package struct DesignDocumentChange: Hashable, Sendable {
    /// The bucket's UUID.
    package var bucket: String
    /// Without `_design/`.
    package var name: String
    /// UTF-8 without blanks between the tokens; the node that received it checked its rules.
    package var body: [UInt8]
    /// The change is refused if the document has another revision (`absent`: if it exists); nil
    /// applies it in any case.
    package var was: DesignRevision?

    package init(bucket: String, name: String, body: [UInt8], was: DesignRevision? = nil) {
        self.bucket = bucket
        self.name = name
        self.body = body
        self.was = was
    }
}

/// The removal of a design document.
package struct DesignDocumentRemoval: Hashable, Sendable {
    /// The bucket's UUID.
    package var bucket: String
    /// Without `_design/`.
    package var name: String
    /// The removal is refused if the document has another revision; nil applies it in any case.
    package var was: DesignRevision?

    package init(bucket: String, name: String, was: DesignRevision? = nil) {
        self.bucket = bucket
        self.name = name
        self.was = was
    }
}

/// The targets of the bucket that a rebalance moves next.
package struct TargetChange: Hashable, Sendable {
    package var bucket: String
    package var targets: BucketTargets

    package init(bucket: String, targets: BucketTargets) {
        self.bucket = bucket
        self.targets = targets
    }
}

/// Raises the agreed progress of a rebalance.
package struct ProgressStep: Hashable, Sendable {
    /// The rebalance's id.
    package var rebalance: String
    package var reached: RebalanceMark

    package init(rebalance: String, reached: RebalanceMark) {
        self.rebalance = rebalance
        self.reached = reached
    }
}

/// A hard failover of nodes.
package struct FailoverStep: Hashable, Sendable {
    package var nodes: [NodeNumber]
    /// Whether the failover was automatic; such failovers raise `autoFailoverCount`.
    package var isAutomatic: Bool
    /// Whether an operator gives up data that only these nodes have.
    ///
    /// If false, the step is refused as long as one of the nodes is active for a vBucket.
    package var mayLose: Bool

    package init(nodes: [NodeNumber], isAutomatic: Bool, mayLose: Bool) {
        self.nodes = nodes
        self.isAutomatic = isAutomatic
        self.mayLose = mayLose
    }
}

/// Ownership steps of many vBuckets of one bucket.
package struct VBucketSteps: Hashable, Sendable {
    /// The step of one vBucket, with the fence and stage that it is based on.
    package struct Step: Hashable, Sendable {
        package var vBucket: VBucketID
        package var fence: UInt64
        package var stage: UInt64
        /// The new chain, for `joint`, `promote` and `recreate`; otherwise empty.
        package var row: NodeChain
        /// The expected position, for `promote` and `takeOver`; otherwise nil.
        package var position: CopyPosition?

        package init(
            vBucket: VBucketID,
            fence: UInt64,
            stage: UInt64,
            row: NodeChain = NodeChain(),
            position: CopyPosition? = nil
        ) {
            self.vBucket = vBucket
            self.fence = fence
            self.stage = stage
            self.row = row
            self.position = position
        }

        /// A step based on the vBucket's present fence and stage.
        package init(
            _ vBucket: VBucketID,
            from placement: VBucketPlacement,
            row: NodeChain = NodeChain(),
            position: CopyPosition? = nil
        ) {
            self.init(
                vBucket: vBucket,
                fence: placement.fence,
                stage: placement.stage,
                row: row,
                position: position
            )
        }
    }

    package var bucket: String
    /// Sorted by vBucket.
    package var steps: [Step]
    /// The active nodes that a `promote` may take vBuckets from.
    ///
    /// A vBucket of any other active node is left out. So voters know from the command alone which
    /// nodes it deposes.
    package var deposes: [NodeNumber]

    package init(bucket: String, steps: [Step], deposes: [NodeNumber] = []) {
        self.bucket = bucket
        self.steps = steps
        self.deposes = deposes
    }
}
