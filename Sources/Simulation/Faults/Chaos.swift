internal import Bytes
internal import Engine
internal import Orchestration
internal import SimulatedPlatform

/// Draws faults by the seed, applies one every second or two, and ends those that last.
///
/// Every seed enables only a few kinds (a *swarm*): a failure that needs one kind often would
/// otherwise be masked by other kinds.
final class Chaos {
    enum Kind: String, CaseIterable {
        case crash, power, powerAll, crashAtDisk, powerAtDisk, stop, stopAll, crashAll
        case split, oneWay, clog, slow, cutConnections
        case freeze, slowLane, clockRate, clockJump, clockFreeze
        case diskSlow, diskFull, diskError
        case leaderChase, activeChase
        /// `sealChase` restarts or isolates a sealed node; `copyChase` ends the process of an
        /// active copy while a replica differs from it.
        case sealChase, copyChase
        /// All disks become slow, and then all machines lose power.
        case brownOut
        /// An active copy is cut off from all nodes, or all but one, and failed over at once.
        case cutOff
        /// The process of an active copy ends when a replica is far behind (`lagChase`), or inside
        /// a snapshot.
        case lagChase, snapshotChase
        /// The process of an active copy ends when the replica with the higher high seqno covers
        /// less (`aheadChase`), or when one replica was failed over and the other is behind.
        case aheadChase, givingUpChase
        /// The process of an active copy ends as soon as the slow new copy of a move counts.
        case moveChase
        /// A node is stopped in the middle of a turn, and failed over before it continues.
        case stopInTurn
        /// Raft members with the newest vote, commit or voter change end, or are cut off.
        case voteChase, commitChase, changeChase
        case dropCursor, tinyQuota

        /// The fault must not lose an acknowledged write or cause a failover.
        var isHarmless: Bool {
            switch self {
            case .cutConnections, .slow, .slowLane, .clockRate, .clockJump, .dropCursor,
                .tinyQuota:
                true
            default: false
            }
        }

        /// The fault is applied only if a workload or an option names it.
        var isForWorkload: Bool {
            switch self {
            case .stopAll, .crashAll, .sealChase, .copyChase, .brownOut, .cutOff, .lagChase,
                .snapshotChase, .aheadChase, .givingUpChase, .moveChase, .voteChase, .commitChase,
                .changeChase, .stopInTurn:
                true
            default: false
            }
        }

        /// One of this many seeds has the fault.
        var rarity: UInt64 {
            // It violates the assumption of leases, so several checks are disabled in such a seed.
            self == .clockFreeze ? 12 : 5
        }
    }

    let cluster: SimulatedCluster
    var random: SeededRandom
    private(set) var kinds: [Kind] = []
    private(set) var ends: UInt64 = 0
    private(set) var isOver = false
    /// The age of a state without moves or promotions.
    var ageOfRest: ClusterState.Age?
    private(set) var counts: [Kind: Int] = [:]
    /// Requested failovers, and those whose reply reports that no durable write is lost.
    let failovers = Guarded(ManualFailovers())
    /// Whether all lost copies have been replaced.
    var isWhole: () -> Bool = { true }
    /// Whether the content of all discarded disks is on other disks.
    var isOnDisk: () -> Bool = { true }
    /// Called before a node ends that may have state that no other node has.
    var beforeEnd: () -> Void = {}
    /// Called with the output of a node that was stopped during the turn that made the output.
    var onDeferredOutput: (ByteView) -> Void = { _ in }
    /// Nodes with disk errors, and the number of their ended processes at that time.
    var sick: [(node: SimulatedNode, restarts: Int)] = []
    /// Nodes whose disks fail now.
    var failing: [SimulatedNode] = []
    /// Accounts of buckets with a lowered quota, and their original quota.
    var squeezed: [(account: MemoryAccount, granted: UInt64)] = []
    /// How often a fault that may have no effect had one, by name.
    var effects: [String: Int] = [:]

    /// Draws the kinds of faults.
    ///
    /// `faults` is `swarm`, `none`, `harmless`, `all`, or names of kinds separated by commas; nil
    /// if a name is unknown.
    init?(_ cluster: SimulatedCluster, faults: String) {
        self.cluster = cluster
        random = cluster.world.random(for: "chaos")
        let usual = Kind.allCases.filter { !$0.isForWorkload }
        switch faults {
        case "none": kinds = []
        case "all": kinds = usual
        case "harmless": kinds = usual.filter(\.isHarmless)
        case "swarm":
            // A separate random sequence keeps the draws of the other kinds unchanged.
            var memory = cluster.world.random(for: "memory")
            for kind in usual {
                let isDrawn =
                    kind == .dropCursor || kind == .tinyQuota
                    ? memory.next() % kind.rarity == 0 : random.next() % kind.rarity == 0
                if isDrawn { kinds.append(kind) }
            }
            if kinds.isEmpty { kinds = [.crash] }
        default:
            for name in faults.split(separator: ",") {
                guard let kind = Kind(rawValue: String(name)) else { return nil }
                kinds.append(kind)
            }
        }
    }

    var isHarmless: Bool { kinds.allSatisfy(\.isHarmless) }

    /// Clocks of nodes may stop, which violates the assumption of leases.
    var isBeyondAssumptions: Bool { kinds.contains(.clockFreeze) }

    /// Clocks of nodes may jump back by an hour.
    ///
    /// A vBucket's next CAS is then the successor of its last one. Two histories that part at one
    /// version name their next versions alike.
    var setsClocksBack: Bool { kinds.contains(.clockJump) }

    var names: String { kinds.map(\.rawValue).joined(separator: ",") }

    func start(for nanoseconds: UInt64) {
        ends = cluster.world.now + nanoseconds
        next()
    }

    private func next() {
        guard !kinds.isEmpty else { return }
        cluster.world.after(400_000_000 + random.next() % 2_600_000_000) { [weak self] in
            guard let self, !isOver, cluster.world.now < ends else { return }
            let kind = kinds[Int(random.next() % UInt64(kinds.count))]
            counts[kind, default: 0] += 1
            begin(kind)
            next()
        }
    }

    /// Ends all faults.
    ///
    /// After disk errors a file stays closed until an operator replaces the disk and restarts the
    /// node, as documented; this does the same.
    func end() {
        isOver = true
        let world = cluster.world
        for (node, restarts) in sick
        where node.restarts == restarts || failing.contains(where: { $0 === node }) {
            world.transcript.note("\(node.address) is started anew with another disk")
            node.crash(isPower: false)
        }
        release()
        world.apply(.healNetwork)
        for node in cluster.nodes {
            let address = node.address
            world.apply(.diskSlow(address, nanoseconds: 0))
            world.apply(.diskFull(address, false))
            world.apply(.diskError(address, perMille: 0))
            world.apply(.thaw(address))
            // Cancels faults that were scheduled for a later disk operation.
            world.apply(.crashAtDisk(address, operations: .max / 2))
            world.apply(.slowLane(address, lanes: "", nanoseconds: 0))
            world.apply(.clockRate(address, millionths: 0))
        }
    }

    /// Applies `begin` now and `end` after a duration.
    func last(_ nanoseconds: UInt64, _ begin: Fault, end: Fault) {
        last(nanoseconds, [begin], end: [end])
    }

    func last(
        _ nanoseconds: UInt64,
        _ begin: [Fault],
        end: [Fault],
        then: @escaping () -> Void = {}
    ) {
        begin.forEach(cluster.world.apply)
        cluster.world.after(nanoseconds) { [weak self] in
            guard let self, !isOver else { return }
            end.forEach(cluster.world.apply)
            then()
        }
    }

    private func begin(_ kind: Kind) {
        let node = cluster.nodes[Int(random.next() % UInt64(cluster.nodes.count))]
        switch kind {
        case .split, .oneWay, .clog, .slow, .cutConnections: beginOnNetwork(kind, node)
        case .freeze, .slowLane, .clockRate, .clockJump, .clockFreeze, .diskSlow, .diskFull,
            .diskError:
            beginOnMachine(kind, node)
        case .dropCursor, .tinyQuota: beginInMemory(kind, node)
        default: beginOnProcess(kind, node)
        }
    }
}
