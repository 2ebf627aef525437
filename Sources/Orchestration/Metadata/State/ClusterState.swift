package import Bytes
package import Vocabulary

/// The cluster's administrator.
///
/// The credentials are salted keys, opaque to this module.
package struct Administrator: Hashable, Sendable, CodedFields {
    package var name = ""
    package var credentials: [UInt8] = []

    package init() {}

    package init(name: String, credentials: [UInt8]) {
        self.name = name
        self.credentials = credentials
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&name, "name")
        try coder.field(&credentials, "credentials")
    }
}

/// The agreed state of the cluster: a value that only `apply` changes.
///
/// Raft replicates it. The proposer picks everything random or timed (UUIDs, salts, rows), so every
/// node that applies the same commands in the same order has the same state.
///
/// - `index` grows with every entry; fences and revisions are indexes, so they only grow, also
///   across restarts and when a bucket is deleted and made again.
/// - `nodes` is sorted by number, `buckets` by name; names are unique ignoring case.
/// - Once there is an administrator, there always is one.
package struct ClusterState: Hashable, Sendable {
    /// The index of the last entry applied.
    package internal(set) var index: UInt64 = 0
    /// Raised by each new epoch.
    ///
    /// Clients compare it before the revision.
    package internal(set) var revEpoch: UInt64 = 1
    /// The administrator or local user that ordered the last new epoch; nil if there was none.
    package internal(set) var epochLogin: String?
    /// The index of the last entry that changed what clients see of the nodes.
    package internal(set) var rev: UInt64 = 0
    /// The Raft group; 0 before provisioning.
    package internal(set) var groupID: UInt64 = 0
    /// The groups of earlier epochs, oldest first: a node that still belongs to one is out of date.
    package internal(set) var pastGroups: [UInt64] = []
    /// 32 hexadecimal digits; nil before provisioning.
    package internal(set) var uuid: String?
    package internal(set) var name = ""
    package internal(set) var administrator: Administrator?
    /// Sorted by the bytes of their ids.
    package internal(set) var users: [LocalUser] = []
    /// For documents, in bytes, on each node.
    package internal(set) var memoryQuota: UInt64
    package internal(set) var settings = ClusterSettings()
    package internal(set) var indexing = IndexingSettings()
    /// Nodes failed over automatically since an operator reset the count or a rebalance completed.
    package internal(set) var autoFailoverCount: UInt16 = 0
    package internal(set) var nodes: [NodeRecord] = []
    package internal(set) var nextNodeNumber = NodeNumber(1)
    package internal(set) var groups = [ServerGroup.first]
    /// The secret that only the members know.
    package internal(set) var secret = SharedSecret()
    /// Authorities that operators loaded.
    package internal(set) var loadedAuthorities: [AuthorityRecord] = []
    /// The highest id of an authority.
    package internal(set) var lastAuthority: UInt64 = 0
    package internal(set) var buckets: [BucketRecord] = []
    package internal(set) var deletedBuckets: [DeletedBucket] = []
    /// The running rebalance or graceful failover; nil if none runs.
    package internal(set) var rebalance: RebalanceRecord?
    package internal(set) var lastRebalance: RebalanceOutcome?
    /// The failed rebalance that is to be retried, or the retry that runs; nil if there is none.
    package internal(set) var retry: RebalanceRetry?
    /// No feature above this level is used, as some member may not understand it; never falls.
    package internal(set) var featureLevel = FeatureLevel.lowest
    package internal(set) var counters = ClusterCounters()
    var proposals = ProposalTable()

    package init(memoryQuota: UInt64) {
        self.memoryQuota = memoryQuota
    }

    /// Orders the states of two nodes: the larger one is newer.
    package struct Age: Comparable, Sendable {
        let epoch: UInt64
        let index: UInt64

        package static func < (one: Age, other: Age) -> Bool {
            (one.epoch, one.index) < (other.epoch, other.index)
        }
    }

    package var age: Age { Age(epoch: revEpoch, index: index) }

    /// Whether an administrator is set; from then on administration requires a password.
    package var isProvisioned: Bool { administrator != nil }

    /// The bucket with exactly this name; nil if there is none.
    package func bucket(named name: String) -> BucketRecord? {
        buckets.first { $0.settings.name == name }
    }

    /// The UUID of the bucket with exactly this name, without a copy of its record; nil if there is none.
    package func uuid(ofBucket name: String) -> String? {
        place(ofBucket: name).map { buckets[$0].settings.uuid }
    }

    /// The node with this number, whatever its membership; nil if there is none.
    package func node(number: NodeNumber) -> NodeRecord? {
        nodes.first { $0.number == number }
    }

    /// All nodes except those that an epoch left behind.
    package var members: [NodeRecord] { nodes.filter { $0.membership != .leftBehind } }

    /// The lowest feature level that all members announce; the agreed level if there are none.
    package var announcedLevel: FeatureLevel { members.map(\.level).min() ?? featureLevel }

    package var leftBehind: [NodeNumber] {
        nodes.filter { $0.membership == .leftBehind }.map(\.number)
    }

    /// All authorities that clients of the cluster trust, those of the cluster first.
    package var authorities: [AuthorityRecord] { secret.authorities + loadedAuthorities }

    package var activeNodes: [NodeRecord] { nodes.filter { $0.membership == .active } }

    /// Nodes listed in the cluster map of a bucket, sorted by number.
    ///
    /// An ejected node stays listed until the rebalance ends, although it holds no copy any more: a
    /// client closes its connections to nodes that its map does not list, and requests in flight on
    /// them fail.
    package func servers(of bucket: BucketRecord) -> [NodeRecord] {
        let holders = bucket.holders
        let leaving = (rebalance?.ejected ?? []).filter { isActive($0) && !holders.contains($0) }
        return (holders + leaving).sorted().compactMap { node(number: $0) }
    }

    /// The sum of the bucket quotas in bytes on each node, without the bucket `name`.
    ///
    /// `UInt64.max` if the sum does not fit into 64 bits.
    package func bucketQuotas(except name: String? = nil) -> UInt64 {
        buckets.reduce(0) { sum, bucket in
            guard bucket.settings.name != name else { return sum }
            let (next, isTooLarge) = sum.addingReportingOverflow(bucket.settings.quota)
            return isTooLarge ? .max : next
        }
    }

    /// The bytes of all design documents, as they count against `Limits.designDocumentsBytesMax`.
    package var designBytes: Int {
        buckets.reduce(0) { sum, bucket in
            bucket.designDocuments.reduce(sum) { $0 + $1.byteCount }
        }
    }

    /// Whether a bucket has this name, ignoring case.
    package func hasBucket(like name: String) -> Bool {
        let name = name.lowercased()
        return buckets.contains { $0.settings.name.lowercased() == name }
    }

    /// By node: index of the newest entry that revoked its right to write a vBucket, in the form
    /// that `LeasePromises` expects.
    package var deposedAt: [NodeNumber: UInt64] {
        let fenced = nodes.filter { $0.fencedAt != 0 }.map { ($0.number, $0.fencedAt) }
        return Dictionary(uniqueKeysWithValues: fenced)
    }

    // MARK: Array indices, for commands

    func place(ofNode number: NodeNumber) -> Int? {
        nodes.firstIndex { $0.number == number }
    }

    func place(ofBucket name: String) -> Int? {
        buckets.firstIndex { $0.settings.name == name }
    }

    func place(ofBucket name: String, _ uuid: String) -> Int? {
        buckets.firstIndex { $0.settings.name == name && $0.settings.uuid == uuid }
    }

    func isActive(_ node: NodeNumber) -> Bool {
        self.node(number: node)?.membership == .active
    }

    /// Raises all revisions to `index`: the nodes that clients see, or their addresses, changed.
    mutating func nodesMoved() {
        rev = index
        for place in buckets.indices { buckets[place].rev = index }
    }
}

/// The encoding for snapshots: a magic number, a schema number, the fields, and a checksum of all
/// of these.
///
/// Another schema is distinguished from damage, because they need different actions of the
/// operator.
extension ClusterState {
    private static let mark = Array("DIVANCLU".utf8)
    /// The schema that this release writes and reads.
    package static let schema: UInt16 = 1

    /// The result of decoding a stored state.
    package enum Decoded: Sendable {
        case state(ClusterState)
        case otherSchema(UInt16)
        case damaged
    }

    /// The part between the schema number and the checksum.
    private struct Fields: CodedFields {
        var state = ClusterState(memoryQuota: 0)

        mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try state.codeCluster(&coder)
            try state.codeContent(&coder)
        }
    }

    package func encoded() -> [UInt8] {
        let writer = ByteWriter(capacity: 4_096)
        writer.append(Self.mark)
        writer.append(bigEndian: Self.schema)
        Fields(state: self).append(to: writer)
        writer.append(bigEndian: CRC32.checksum(writer.view))
        return writer.bytes
    }

    package static func decode(_ bytes: [UInt8]) -> Decoded {
        bytes.withUnsafeBytes { decode(ByteView($0)) }
    }

    private static func decode(_ view: ByteView) -> Decoded {
        var reader = ByteReader(view)
        guard let found = reader.bytes(mark.count)?.bytes, found == mark,
            let schema = reader.bigEndian(UInt16.self)
        else { return .damaged }
        guard schema == Self.schema else { return .otherSchema(schema) }
        guard reader.rest.count >= 4 else { return .damaged }
        let checked = view.slice(0, view.count - 4)
        guard view.bigEndian(at: checked.count, as: UInt32.self) == CRC32.checksum(checked),
            let fields = try? Fields(decoding: checked.dropFirst(mark.count + 2))
        else { return .damaged }
        return .state(fields.state)
    }

    private mutating func codeCluster(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&index, "index")
        try coder.field(&revEpoch, "epoch")
        try coder.optional(&epochLogin, "login of the epoch")
        try coder.field(&rev, "revision")
        try coder.fixed(&groupID, "group")
        try coder.list(&pastGroups, "past groups", blank: 0) { coder, group throws(CodingFailure) in
            try coder.fixed(&group, "past group")
        }
        try coder.optional(&uuid, "UUID")
        try coder.field(&name, "name")
        try coder.field(&featureLevel, "feature level")
        try coder.field(&administrator, "administrator")
        try coder.field(&users, "users")
        try coder.field(&memoryQuota, "memory quota")
        try coder.field(&settings, "settings")
        try coder.field(&indexing, "settings of indexes")
        try coder.field(&autoFailoverCount, "automatic failovers")
    }

    private mutating func codeContent(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&nextNodeNumber, "next node number")
        try coder.field(&nodes, "nodes")
        try coder.field(&groups, "server groups")
        try coder.field(&secret, "secret")
        try coder.field(&loadedAuthorities, "loaded authorities")
        try coder.field(&lastAuthority, "last authority")
        try coder.field(&buckets, "buckets")
        try coder.field(&deletedBuckets, "deleted buckets")
        try coder.field(&rebalance, "rebalance")
        try coder.field(&lastRebalance, "last rebalance")
        try coder.field(&retry, "retry")
        try coder.field(&proposals.rows, "proposals")
        try coder.field(&counters, "counters")
    }
}

/// The vBucket assignments that nodes carry out, derived from the agreed state.
extension ClusterState {
    /// The assignments of a bucket's vBuckets as of `index`; nil if there is no such bucket.
    package func assignment(ofBucket name: String) -> BucketAssignment? {
        guard let bucket = bucket(named: name) else { return nil }
        let returning = returning
        return BucketAssignment(
            name: name,
            uuid: bucket.settings.uuid,
            index: index,
            vBuckets: bucket.placements.indices.map { number in
                Self.assignment(of: bucket, number, returning)
            }
        )
    }

    /// The assignment of one vBucket; nil if the bucket or the vBucket does not exist.
    package func assignment(ofBucket name: String, _ vBucket: VBucketID) -> VBucketAssignment? {
        guard let bucket = bucket(named: name),
            bucket.placements.indices.contains(Int(vBucket.number))
        else { return nil }
        return Self.assignment(of: bucket, Int(vBucket.number), returning)
    }

    /// Failed-over nodes whose old copies a delta recovery may still use.
    var returning: [NodeNumber] {
        nodes.filter { node in
            switch node.membership {
            case .inactiveFailed: true
            case .inactiveAdded: node.recovery == .delta
            // Include a node that a graceful failover empties: a later recovery uses its copies.
            case .active:
                rebalance.map { rebalance in
                    rebalance.delta.contains(node.number)
                        || rebalance.kind == .gracefulFailover
                            && rebalance.ejected.contains(node.number)
                } ?? false
            case .joining, .leftBehind: false
            }
        }.map(\.number)
    }

    /// Returning nodes that the running rebalance does not eject: if one of them has the last copy
    /// of a vBucket, the vBucket is not recreated.
    package var awaited: Set<NodeNumber> { Set(returning).subtracting(rebalance?.ejected ?? []) }

    private static func assignment(
        of bucket: BucketRecord,
        _ number: Int,
        _ returning: [NodeNumber]
    ) -> VBucketAssignment {
        let placement = bucket.placements[number]
        func hasNoCopy(_ node: NodeNumber) -> Bool {
            !placement.chain.contains(node) && !placement.next.contains(node)
        }
        let builders = bucket.targets?.rows[number].filter(hasNoCopy) ?? []
        var kept = placement.basis.filter(hasNoCopy)
        if !placement.rowBefore.isEmpty {
            kept += placement.rowBefore.filter { node in
                hasNoCopy(node) && returning.contains(node) && !kept.contains(node)
            }
        }
        return VBucketAssignment(
            fence: placement.fence,
            stage: placement.stage,
            chain: placement.chain.nodes,
            isConfirmed: placement.isConfirmed,
            nextChain: placement.next.nodes,
            builders: placement.chain.isEmpty ? [] : builders,
            former: placement.former,
            copies: Int(placement.copies),
            nextCopies: placement.isJoint ? Int(placement.nextCopies) : nil,
            origin: placement.origin,
            branch: placement.branch,
            isResumed: placement.cause == .resumed,
            kept: kept
        )
    }
}

/// The bucket quotas against the memory quota of a node: one rule, checked by forms when a request
/// arrives and again when its entry is applied.
///
/// - The buckets' quotas together stay within `memoryQuota`, which holds on every node.
/// - Every node's machine can provide `memoryQuota` (`MemoryQuota`). A node restarted on a smaller
///   machine serves with a warning: refusing to start would be worse.
extension ClusterState {
    /// Bytes of the memory quota not assigned to a bucket; those of the bucket `name` count as
    /// free.
    package func freeQuota(except name: String? = nil) -> UInt64 {
        memoryQuota - min(memoryQuota, bucketQuotas(except: name))
    }

    /// Whether a bucket may have this quota.
    ///
    /// - Parameters:
    ///   - quota: Bytes on each node.
    ///   - bucket: The bucket before the change; nil for a new one.
    /// - Returns: Whether it fits; always true if the bucket keeps or lowers its quota.
    package func allows(bucketQuota quota: UInt64, for bucket: BucketRecord?) -> Bool {
        if let bucket, quota <= bucket.settings.quota { return true }
        return quota <= freeQuota(except: bucket?.settings.name)
    }

    /// Whether the existing buckets fit into a memory quota of `quota` bytes.
    package func allows(memoryQuota quota: UInt64) -> Bool { bucketQuotas() <= quota }

    /// A node whose machine cannot provide a memory quota of `quota` bytes; nil if all can.
    ///
    /// A node that never reported its memory counts as large enough.
    package func nodeTooSmall(forMemoryQuota quota: UInt64) -> NodeRecord? {
        members.first { $0.memoryTotal != 0 && !Self.canGive(quota, of: $0.memoryTotal) }
    }

    /// Whether a machine with `memoryTotal` bytes can provide a quota of `quota` bytes.
    static func canGive(_ quota: UInt64, of memoryTotal: UInt64) -> Bool {
        quota <= MemoryQuota.megabytesMax(memoryTotal: memoryTotal) << 20
    }

    /// The bytes on `nodes` nodes together if a quota is `quota` bytes on each.
    ///
    /// `UInt64.max` if the product does not fit into 64 bits: forms also show quotas that they
    /// refuse.
    package static func bytes(ofQuota quota: UInt64, onNodes nodes: UInt64) -> UInt64 {
        let (product, isTooLarge) = quota.multipliedReportingOverflow(by: nodes)
        return isTooLarge ? .max : product
    }

    /// Bytes by which the bucket quotas exceed the memory quota; always 0, as checkers verify.
    package var quotaExcess: UInt64 { bucketQuotas() - min(memoryQuota, bucketQuotas()) }
}
