package import Vocabulary

/// All that a new cluster begins with, in one entry: of two that arrive together one sets nothing.
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

/// What an operator orders when a majority is gone for good.
package struct NewEpoch: Hashable, Sendable {
    /// Random, never used before: whoever belongs to another group is refused.
    package var groupID: UInt64
    /// The group whose members come over.
    package var formerGroupID: UInt64
    /// Everybody else is left behind.
    package var survivors: [NodeNumber]
    /// By the proposer's clock, since 1970: a rebalance that ran ends here.
    package var beganMilliseconds: UInt64

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

package struct NewNode: Hashable, Sendable {
    package var uuid: String
    package var host: String
    package var ports: NodePorts
    package var group: String
    package var services: [String]
    /// Of the names that its name was judged beside (`ClusterState.namesRevision`); nil if it was not.
    package var namesRevision: UInt32?
    /// Bytes that its machine gives it; 0 if it did not say.
    package var memoryTotal: UInt64 = 0

    package init(
        uuid: String,
        host: String,
        ports: NodePorts,
        group: String = ServerGroup.first.name,
        services: [String] = ["kv"]
    ) {
        self.uuid = uuid
        self.host = host
        self.ports = ports
        self.group = group
        self.services = services
    }
}

package struct NodeAddress: Hashable, Sendable {
    package var number: NodeNumber
    package var host: String
    package var ports: NodePorts
    /// It is another name for a node that is alone: refused once the cluster has another node.
    package var isOfLoneNode = false
    /// Bytes that its machine gives it; 0 leaves what is known.
    package var memoryTotal: UInt64 = 0

    package init(number: NodeNumber, host: String, ports: NodePorts) {
        self.number = number
        self.host = host
        self.ports = ports
    }
}

package struct AlternateChange: Hashable, Sendable {
    package var number: NodeNumber
    /// Nil takes it away.
    package var address: AlternateAddress?

    package init(number: NodeNumber, address: AlternateAddress?) {
        self.number = number
        self.address = address
    }
}

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

/// All server groups, and who is in which; nodes that are not named stay where they are.
package struct GroupLayout: Hashable, Sendable {
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
    /// Of the layout that this one rests on (`ClusterState.groupsRevision`).
    package var revision: UInt32?

    package init(groups: [ServerGroup], members: [Member], revision: UInt32? = nil) {
        self.groups = groups
        self.members = members
        self.revision = revision
    }
}

package struct NewBucket: Hashable, Sendable {
    package var settings: BucketSettings
    package var options: BucketOptions
    /// As many as the bucket has vBuckets.
    package var rows: [NodeChain]

    package init(settings: BucketSettings, options: BucketOptions, rows: [NodeChain]) {
        self.settings = settings
        self.options = options
        self.rows = rows
    }
}

/// Of the settings, name, UUID, type and number of vBuckets never change.
package struct BucketChange: Hashable, Sendable {
    /// What was read before it was changed.
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
    /// Somebody else's change in between refuses this one; nil where it holds over anything.
    package var was: Basis?

    package init(settings: BucketSettings, options: BucketOptions, was: Basis? = nil) {
        self.settings = settings
        self.options = options
        self.was = was
    }
}

/// One half of what takes two: it begins, every node does it, it ends.
package struct BucketStep: Hashable, Sendable {
    package enum Phase: UInt8, Sendable {
        case begin = 0
        case end = 1
    }

    package var name: String
    package var uuid: String
    package var phase: Phase
    /// The flush that is over, by the index of the entry that began it; 0 in all other steps.
    ///
    /// Whoever led before may say late that its flush is over, when another one runs.
    package var flush: UInt64

    package init(name: String, uuid: String, phase: Phase, flush: UInt64 = 0) {
        self.name = name
        self.uuid = uuid
        self.phase = phase
        self.flush = flush
    }
}

package struct TargetChange: Hashable, Sendable {
    package var bucket: String
    package var targets: BucketTargets

    package init(bucket: String, targets: BucketTargets) {
        self.bucket = bucket
        self.targets = targets
    }
}

/// More of a rebalance may be shown from now on.
package struct ProgressStep: Hashable, Sendable {
    /// Its id.
    package var rebalance: String
    package var reached: RebalanceMark

    package init(rebalance: String, reached: RebalanceMark) {
        self.rebalance = rebalance
        self.reached = reached
    }
}

package struct FailoverStep: Hashable, Sendable {
    package var nodes: [NodeNumber]
    /// Nobody asked for it, so it counts.
    package var isAutomatic: Bool
    /// Somebody gives up what only these nodes have.
    ///
    /// Otherwise others serve everything by now, and the step comes to nothing where they do not.
    package var mayLose: Bool

    package init(nodes: [NodeNumber], isAutomatic: Bool, mayLose: Bool) {
        self.nodes = nodes
        self.isAutomatic = isAutomatic
        self.mayLose = mayLose
    }

    /// By hand, which may lose something, or by itself, which may not.
    package init(nodes: [NodeNumber], isAutomatic: Bool) {
        self.init(nodes: nodes, isAutomatic: isAutomatic, mayLose: !isAutomatic)
    }
}

/// Steps of many vBuckets of one bucket.
package struct VBucketSteps: Hashable, Sendable {
    package struct Step: Hashable, Sendable {
        package var vBucket: VBucketID
        package var fence: UInt64
        package var stage: UInt64
        /// For `joint`, `promote` and `recreate`.
        package var row: NodeChain
        /// For `promote` and `takeOver`.
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

        /// A step from where the vBucket is now.
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
    /// In the order of their vBuckets.
    package var steps: [Step]
    /// The active ones that a `promote` takes vBuckets from.
    ///
    /// A vBucket of anybody else is left out, so voters can tell from the command alone whom it
    /// deposes.
    package var deposes: [NodeNumber]

    package init(bucket: String, steps: [Step], deposes: [NodeNumber] = []) {
        self.bucket = bucket
        self.steps = steps
        self.deposes = deposes
    }
}
