package import Bytes
package import Vocabulary

/// The initial settings of a cluster, in one entry: if two are proposed, the second changes
/// nothing.
package struct Initialisation: Hashable, Sendable, CodedFields {
    package var uuid = ""
    package var groupID: UInt64 = 0
    package var administrator = Administrator()
    /// Bytes on each node; nil leaves the quota as it is.
    package var memoryQuota: UInt64?
    /// Nil leaves the name as it is.
    package var name: String?

    package init() {}

    package init(uuid: String, groupID: UInt64, administrator: Administrator) {
        self.uuid = uuid
        self.groupID = groupID
        self.administrator = administrator
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&uuid, "UUID")
        try coder.fixed(&groupID, "group")
        try coder.field(&administrator, "administrator")
        try coder.field(&memoryQuota, "memory quota")
        try coder.field(&name, "name")
    }
}

/// A new epoch, which an operator orders if a majority is permanently lost.
package struct NewEpoch: Hashable, Sendable, CodedFields {
    /// Random and never used before: nodes reject messages of other groups.
    package var groupID: UInt64 = 0
    /// The group that the survivors leave.
    package var formerGroupID: UInt64 = 0
    /// All other nodes are left behind.
    package var survivors: [NodeNumber] = []
    /// By the proposer's clock, since the Unix epoch: the end time of an interrupted rebalance.
    package var beganMilliseconds: UInt64 = 0
    /// The administrator or local user that ordered it.
    package var login: String?

    package init() {}

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

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.fixed(&groupID, "group")
        try coder.fixed(&formerGroupID, "former group")
        try coder.field(&survivors, "survivors")
        try coder.field(&beganMilliseconds, "begin")
        try coder.optional(&login, "login")
    }
}

/// A node that joins the cluster.
package struct NewNode: Hashable, Sendable, CodedFields {
    package var uuid = ""
    package var host = ""
    package var ports = NodePorts()
    package var keys = NodeKeys()
    package var group = ""
    package var services: [String] = []
    /// The `ClusterState.namesRevision` that its host was checked against; nil if it was not
    /// checked.
    package var namesRevision: UInt32?
    /// Bytes of memory that its machine provides; 0 if not reported.
    package var memoryTotal: UInt64 = 0
    /// The highest feature level that it announces.
    package var level = FeatureLevel.current

    package init() {}

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

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&uuid, "UUID")
        try coder.field(&host, "host")
        try coder.field(&ports, "ports")
        try coder.field(&keys, "keys")
        try coder.field(&group, "group")
        try coder.field(&services, "services")
        try coder.revision(&namesRevision, "revision of the names")
        try coder.field(&memoryTotal, "memory")
        try coder.field(&level, "level")
    }
}

/// A node's present address and memory.
package struct NodeAddress: Hashable, Sendable, CodedFields {
    package var number = NodeNumber(0)
    package var host = ""
    package var ports = NodePorts()
    /// Renames a node that is alone: refused if the cluster has another node by then.
    package var isOfLoneNode = false
    /// Bytes of memory that its machine provides; 0 keeps the known value.
    package var memoryTotal: UInt64 = 0
    /// The highest feature level that it announces; nil leaves what is known.
    package var level: FeatureLevel?

    package init() {}

    package init(number: NodeNumber, host: String, ports: NodePorts) {
        self.number = number
        self.host = host
        self.ports = ports
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&number, "number")
        try coder.field(&host, "host")
        try coder.field(&ports, "ports")
        try coder.field(&isOfLoneNode, "lone node")
        try coder.field(&memoryTotal, "memory")
        try coder.field(&level, "level")
    }
}

/// A change of a node's address for clients outside the cluster's network.
package struct AlternateChange: Hashable, Sendable, CodedFields {
    package var number = NodeNumber(0)
    /// Nil removes the address.
    package var address: AlternateAddress?

    package init() {}

    package init(number: NodeNumber, address: AlternateAddress?) {
        self.number = number
        self.address = address
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&number, "number")
        try coder.field(&address, "address")
    }
}

/// A change of a node's membership and recovery type.
package struct NodeStateChange: Hashable, Sendable, CodedFields {
    package var number = NodeNumber(0)
    package var membership = NodeMembership.joining
    package var recovery = RecoveryType.none

    package init() {}

    package init(
        number: NodeNumber,
        membership: NodeMembership,
        recovery: RecoveryType = .none
    ) {
        self.number = number
        self.membership = membership
        self.recovery = recovery
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&number, "number")
        try coder.choice(&membership, "membership")
        try coder.choice(&recovery, "recovery")
    }
}

/// All server groups, and the nodes in each; nodes that are not listed stay in their group.
package struct GroupLayout: Hashable, Sendable, CodedFields {
    /// The assignment of one node to a group.
    package struct Member: Hashable, Sendable, CodedFields {
        package var node = NodeNumber(0)
        /// The group's name.
        package var group = ""

        package init() {}

        package init(node: NodeNumber, group: String) {
            self.node = node
            self.group = group
        }

        package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&node, "node")
            try coder.field(&group, "group")
        }
    }

    package var groups: [ServerGroup] = []
    package var members: [Member] = []
    /// The `ClusterState.groupsRevision` that this change is based on; nil applies it in any case.
    package var revision: UInt32?

    package init() {}

    package init(groups: [ServerGroup], members: [Member], revision: UInt32? = nil) {
        self.groups = groups
        self.members = members
        self.revision = revision
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&groups, "groups")
        try coder.field(&members, "members")
        try coder.revision(&revision, "revision")
    }
}

/// A bucket to be created, with its chains.
package struct NewBucket: Hashable, Sendable, CodedFields {
    package var settings = BucketSettings()
    package var options = BucketOptions()
    /// The chain of each vBucket, by number.
    package var rows: [NodeChain] = []

    package init() {}

    package init(settings: BucketSettings, options: BucketOptions, rows: [NodeChain]) {
        self.settings = settings
        self.options = options
        self.rows = rows
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&settings, "settings")
        try coder.field(&options, "options")
        try coder.field(&rows, "rows")
    }
}

/// A change of a bucket's settings; name, UUID, type and number of vBuckets never change.
package struct BucketChange: Hashable, Sendable, CodedFields {
    /// The settings and options that a change is based on.
    package struct Basis: Hashable, Sendable, CodedFields {
        package var settings = BucketSettings()
        package var options = BucketOptions()

        package init() {}

        package init(settings: BucketSettings, options: BucketOptions) {
            self.settings = settings
            self.options = options
        }

        package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&settings, "settings")
            try coder.field(&options, "options")
        }
    }

    package var settings = BucketSettings()
    package var options = BucketOptions()
    /// The change is refused if the bucket differs from this; nil applies it in any case.
    package var was: Basis?

    package init() {}

    package init(settings: BucketSettings, options: BucketOptions, was: Basis? = nil) {
        self.settings = settings
        self.options = options
        self.was = was
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&settings, "settings")
        try coder.field(&options, "options")
        try coder.field(&was, "basis")
    }
}

/// One of the two steps of a bucket deletion or flush: `begin`, then `end` after every node did it.
package struct BucketStep: Hashable, Sendable, CodedFields {
    package enum Phase: UInt8, Sendable {
        case begin = 0
        case end = 1
    }

    package var name = ""
    package var uuid = ""
    package var phase = Phase.begin
    /// The index of the entry that began the flush that ends here; 0 in all other steps.
    ///
    /// A former leader may propose the end of an earlier flush while another flush runs.
    package var flush: UInt64 = 0

    package init() {}

    package init(name: String, uuid: String, phase: Phase, flush: UInt64 = 0) {
        self.name = name
        self.uuid = uuid
        self.phase = phase
        self.flush = flush
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&name, "name")
        try coder.field(&uuid, "UUID")
        try coder.choice(&phase, "phase")
        try coder.field(&flush, "flush")
    }
}

/// A design document's new text.
package struct DesignDocumentChange: Hashable, Sendable, CodedFields {
    /// The bucket's UUID.
    package var bucket = ""
    /// Without `_design/`.
    package var name = ""
    /// UTF-8 without blanks between the tokens; the node that received it checked its rules.
    package var body: [UInt8] = []
    /// The change is refused if the document has another revision (`absent`: if it exists); nil
    /// applies it in any case.
    package var was: DesignRevision?

    package init() {}

    package init(bucket: String, name: String, body: [UInt8], was: DesignRevision? = nil) {
        self.bucket = bucket
        self.name = name
        self.body = body
        self.was = was
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try coder.field(&name, "name")
        try coder.field(&body, "body")
        try coder.field(&was, "basis")
    }
}

/// The removal of a design document.
package struct DesignDocumentRemoval: Hashable, Sendable, CodedFields {
    /// The bucket's UUID.
    package var bucket = ""
    /// Without `_design/`.
    package var name = ""
    /// The removal is refused if the document has another revision; nil applies it in any case.
    package var was: DesignRevision?

    package init() {}

    package init(bucket: String, name: String, was: DesignRevision? = nil) {
        self.bucket = bucket
        self.name = name
        self.was = was
    }

    /// Without `was`: a removal with a basis is a command of another kind.
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try coder.field(&name, "name")
    }
}

/// The targets of the bucket that a rebalance moves next.
package struct TargetChange: Hashable, Sendable, CodedFields {
    package var bucket = ""
    package var targets = BucketTargets()

    package init() {}

    package init(bucket: String, targets: BucketTargets) {
        self.bucket = bucket
        self.targets = targets
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try coder.field(&targets, "targets")
    }
}

/// Raises the agreed progress of a rebalance.
package struct ProgressStep: Hashable, Sendable, CodedFields {
    /// The rebalance's id.
    package var rebalance = ""
    package var reached = RebalanceMark()

    package init() {}

    package init(rebalance: String, reached: RebalanceMark) {
        self.rebalance = rebalance
        self.reached = reached
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&rebalance, "rebalance")
        try coder.field(&reached, "reached")
    }
}

/// A hard failover of nodes.
package struct FailoverStep: Hashable, Sendable, CodedFields {
    package var nodes: [NodeNumber] = []
    /// Whether the failover was automatic; such failovers raise `autoFailoverCount`.
    package var isAutomatic = false
    /// Whether an operator gives up data that only these nodes have.
    ///
    /// If false, the step is refused as long as one of the nodes is active for a vBucket.
    package var mayLose = false

    package init() {}

    package init(nodes: [NodeNumber], isAutomatic: Bool, mayLose: Bool) {
        self.nodes = nodes
        self.isAutomatic = isAutomatic
        self.mayLose = mayLose
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&nodes, "nodes")
        try coder.flags(&isAutomatic, &mayLose, name: "flags")
    }
}

/// Ownership steps of many vBuckets of one bucket.
package struct VBucketSteps: Hashable, Sendable, CodedFields {
    /// The step of one vBucket, with the fence and stage that it is based on.
    package struct Step: Hashable, Sendable {
        package var vBucket = VBucketID(0)
        package var fence: UInt64 = 0
        package var stage: UInt64 = 0
        /// The new chain, for `joint`, `promote` and `recreate`; otherwise empty.
        package var row = NodeChain()
        /// The expected position, for `promote` and `takeOver`; otherwise nil.
        package var position: CopyPosition?

        fileprivate init() {}

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

        /// Six to twelve bytes: numbers are differences to the previous step.
        fileprivate mutating func code(
            _ coder: inout some Coder,
            after before: Step
        ) throws(CodingFailure) {
            var number = UInt64(vBucket.number)
            try coder.difference(&number, to: UInt64(before.vBucket.number), "vBucket")
            try coder.require(number <= UInt64(UInt16.max), "vBucket")
            vBucket = VBucketID(UInt16(number))
            try coder.difference(&fence, to: before.fence, "fence")
            try coder.difference(&stage, to: fence, "stage")
            // The length of the row, and 8 if there is a position.
            var shape = UInt8(row.count) | (position == nil ? 0 : 8)
            try coder.field(&shape, "shape")
            try coder.require(shape < 16, "shape")
            var nodes: [NodeNumber] = []
            for place in 0..<Int(shape & 7) {
                var node = place < row.count ? row[place] : NodeNumber(0)
                try coder.field(&node, "row")
                nodes.append(node)
            }
            let chain = NodeChain(nodes)
            try coder.require(chain != nil, "row")
            row = chain ?? row
            guard shape & 8 != 0 else { return }
            var found = position ?? CopyPosition()
            try coder.field(&found, "position")
            position = found
        }
    }

    package var bucket = ""
    /// Sorted by vBucket.
    package var steps: [Step] = []
    /// The active nodes that a `promote` may take vBuckets from.
    ///
    /// A vBucket of any other active node is left out. So voters know from the command alone which
    /// nodes it deposes.
    package var deposes: [NodeNumber] = []

    package init() {}

    package init(bucket: String, steps: [Step], deposes: [NodeNumber] = []) {
        self.bucket = bucket
        self.steps = steps
        self.deposes = deposes
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try coder.field(&deposes, "deposed nodes")
        var before = Step()
        try coder.list(&steps, "steps", blank: Step()) { coder, step throws(CodingFailure) in
            try step.code(&coder, after: before)
            before = step
        }
    }
}

extension Coder {
    /// One more than the revision; 0 for nil.
    fileprivate mutating func revision(
        _ revision: inout UInt32?,
        _ name: StaticString
    ) throws(CodingFailure) {
        var next = revision.map { UInt64($0) + 1 } ?? 0
        try field(&next, name)
        try require(next <= UInt64(UInt32.max) + 1, name)
        revision = next == 0 ? nil : UInt32(next - 1)
    }
}
