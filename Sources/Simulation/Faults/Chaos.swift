internal import Bytes
internal import Engine
internal import Orchestration
internal import SimulatedPlatform

/// Draws faults by the seed and applies them, one every second or two, and takes back those that
/// last.
///
/// Every seed switches most kinds off (a *swarm*): what only shows where one kind comes often would
/// drown in the others.
final class Chaos {
    enum Kind: String, CaseIterable {
        case crash, power, powerAll, crashAtDisk, powerAtDisk, stop, stopAll, crashAll
        case split, oneWay, clog, slow, cutConnections
        case freeze, slowLane, clockRate, clockJump, clockFreeze
        case diskSlow, diskFull, diskError
        case leaderChase, activeChase
        /// Whoever was sealed is hurt; an active copy ends when another is not what it is.
        case sealChase, copyChase
        /// All disks become slow, and then all machines lose their power.
        case brownOut
        /// An active copy is cut off from other nodes, or all but one, and failed over at once.
        case cutOff
        /// An active copy ends when another one is far behind, or inside a snapshot.
        case lagChase, snapshotChase
        /// One ends when the copy that is further on covers less, or when another one was failed
        /// over while the last is behind.
        case aheadChase, givingUpChase
        /// One ends when a copy was moved that is behind.
        case moveChase
        /// A node is stopped in the middle of a turn, and failed over before it goes on.
        case stopInTurn
        /// Of those that decide: who has what was just decided ends, or is cut off.
        case voteChase, commitChase, changeChase
        case dropCursor, tinyQuota

        /// Nothing that was acknowledged may be lost by it, nor a node failed over.
        var isHarmless: Bool {
            switch self {
            case .cutConnections, .slow, .slowLane, .clockRate, .clockJump, .dropCursor,
                .tinyQuota:
                true
            default: false
            }
        }

        /// Only where a workload or somebody asks for it by name.
        var isForWorkload: Bool {
            switch self {
            case .stopAll, .crashAll, .sealChase, .copyChase, .brownOut, .cutOff, .lagChase,
                .snapshotChase, .aheadChase, .givingUpChase, .moveChase, .voteChase, .commitChase,
                .changeChase, .stopInTurn:
                true
            default: false
            }
        }

        /// One seed of so many has it.
        var rarity: UInt64 {
            // Beyond what leases are promised for: several checks say nothing in such a seed.
            self == .clockFreeze ? 12 : 5
        }
    }

    let cluster: SimulatedCluster
    var random: SeededRandom
    private(set) var kinds: [Kind] = []
    private(set) var ends: UInt64 = 0
    private(set) var isOver = false
    /// Of a state in which nothing was on its way.
    var ageOfRest: ClusterState.Age?
    private(set) var counts: [Kind: Int] = [:]
    /// Failovers that were asked for, and those of which the answer said that no durable write is
    /// lost.
    let failovers = Guarded(ByHand())
    /// Whether all that was lost of copies is there again.
    var isWhole: () -> Bool = { true }
    /// Whether all that was on disks that were given up is on others.
    var isOnDisk: () -> Bool = { true }
    /// Called where somebody is about to end who has seen what others have not.
    var beforeEnd: () -> Void = {}
    /// Told what a node says that was stopped meanwhile.
    var saidLate: (ByteView) -> Void = { _ in }
    /// Nodes whose disks failed, with how often their processes had ended before.
    var sick: [(node: SimulatedNode, restarts: Int)] = []
    /// Nodes whose disks fail.
    var failing: [SimulatedNode] = []
    /// Accounts of buckets that have less than they were granted.
    var squeezed: [(account: MemoryAccount, granted: UInt64)] = []
    /// What faults came to, where being drawn says little.
    var effects: [String: Int] = [:]

    /// `faults`: `swarm`, `none`, `harmless`, `all`, or names of kinds with commas between; nil
    /// where a name means nothing.
    init?(_ cluster: SimulatedCluster, faults: String) {
        self.cluster = cluster
        random = cluster.world.dice("chaos")
        let usual = Kind.allCases.filter { !$0.isForWorkload }
        switch faults {
        case "none": kinds = []
        case "all": kinds = usual
        case "harmless": kinds = usual.filter(\.isHarmless)
        case "swarm":
            // With dice of their own: what is drawn of the others stays what it was.
            var memory = cluster.world.dice("memory")
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

    /// Clocks of nodes stand still: leases promise nothing then.
    var isBeyondAssumptions: Bool { kinds.contains(.clockFreeze) }

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

    /// Everything is well from now on.
    ///
    /// What a disk's errors closed stays closed until somebody has seen to the disk and starts the
    /// node anew, as the product says: so that is done here.
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
            // What was to come in the middle of the disk's work comes no more.
            world.apply(.crashAtDisk(address, operations: .max / 2))
            world.apply(.slowLane(address, lanes: "", nanoseconds: 0))
            world.apply(.clockRate(address, millionths: 0))
        }
    }

    func last(_ nanoseconds: UInt64, _ begin: Fault, _ end: Fault) {
        last(nanoseconds, [begin], [end])
    }

    func last(
        _ nanoseconds: UInt64,
        _ begin: [Fault],
        _ end: [Fault],
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
