internal import Bytes
internal import DataService
internal import Engine
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

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

/// Cuts a node off and fails it over by hand at the same instant: it serves its clients until its
/// lease ends, and only the seals of other copies keep its writes from being acknowledged as
/// durable.
extension Chaos {
    func cutOff() {
        guard let (leader, active) = nodeToSpare() else { return }
        let others = cluster.nodes.filter { $0 !== active.node }
        let followers = others.filter { $0 !== leader }
        // One node may stay connected: a sealed copy must accept no changes of the old active copy.
        let isAlone = followers.isEmpty || random.next() % 4 == 0
        let friend = isAlone ? nil : followers[Int(random.next() % UInt64(followers.count))]
        let here = active.node.address
        let cuts = others.filter { $0 !== friend }.flatMap { other -> [Fault] in
            [.oneWay(from: here, to: other.address), .oneWay(from: other.address, to: here)]
        }
        last(1_500_000_000, cuts, end: [.healNetwork])
        failOver(active, asking: leader)
        guard let friend, random.next() & 1 == 0 else { return }
        awaitSeals(for: active, until: cluster.world.now + 500_000_000) { [weak self] _ in
            guard let self, !isOver, isSealed(friend, for: active.record.number) else { return }
            friend.restartDelay = 1_000_000 + random.next() % 30_000_000
            cluster.world.transcript.note("crash \(friend.address), which was sealed")
            friend.crash(isPower: false)
        }
    }

    /// Stops a node between its reading of the clock and its response; another node serves before
    /// it continues, so its response must acknowledge no write.
    func stopInTurn() {
        guard let (leader, active) = nodeToSpare() else { return }
        let host = active.node.host
        host.onDeferredOutput = onDeferredOutput
        host.onStopInTurn = { [weak self] in
            guard let self, !isOver else { return }
            cluster.world.transcript.note("\(host.address) is stopped in the middle of a turn")
            failOver(active, asking: leader)
        }
        let turns = 1 + Int(random.next() % 40)
        let length = 1_500_000_000 + random.next() % 1_500_000_000
        cluster.world.apply(.stopInTurn(host.address, turns: turns, nanoseconds: length))
    }
}

/// Fails a replica over while another replica is behind, and ends the active copy before that
/// replica has caught up: durable writes were only on the two lost copies.
extension Chaos {
    func chaseGivingUp() {
        // The outcome is checked only if nothing else was lost and the failover's reply reports its
        // losses.
        guard isOnDisk(), let row = rowToAttack(), let leader = cluster.leader,
            let state = cluster.newestState, row.active !== leader
        else { return }
        let active = row.active
        let others = row.owners.dropFirst().map(\.node).shuffled(using: &random)
        guard let gone = others.first(where: { $0 !== leader }),
            let late = others.first(where: { $0 !== gone }),
            let record = state.nodes.first(where: { $0.host == gone.address })
        else { return }
        last(
            1_500_000_000,
            [.oneWay(from: active.address, to: late.address)],
            end: [.healNetwork]
        )
        cluster.world.after(50_000_000 + random.next() % 400_000_000) { [weak self] in
            guard let self, !isOver, row.isThere, cluster.leader === leader else { return }
            failOver(Spare(node: gone, record: record), asking: leader)
            let end = cluster.world.now + 1_000_000_000
            awaitGivenUp(active, late, without: record.number, until: end)
        }
    }

    /// Waits until the map has only these two copies, then ends the active one.
    private func awaitGivenUp(
        _ active: SimulatedNode,
        _ late: SimulatedNode,
        without gone: NodeNumber,
        until end: UInt64
    ) {
        guard !isOver, cluster.world.now < end, active.host.isRunning,
            let state = cluster.newestState
        else { return }
        let isGone = state.nodes.contains { $0.number == gone && $0.membership != .active }
        guard isGone else {
            return cluster.world.after(Chaos.intervalNanoseconds) { [weak self] in
                self?.awaitGivenUp(active, late, without: gone, until: end)
            }
        }
        silence(active, because: "\(late.address) is behind, and another copy was failed over")
    }
}

/// Shortage of memory: cursors are dropped, documents ejected, writes refused.
extension Chaos {
    func beginInMemory(_ kind: Kind, _ node: SimulatedNode) {
        let length = 100_000_000 + random.next() % 6_000_000_000
        if kind == .dropCursor {
            let pause = 1_000_000 + random.next() % 100_000_000
            dropCursors(node, every: pause, until: cluster.world.now + length)
        } else {
            squeeze(node, for: length)
        }
    }

    /// Drops cursors repeatedly, as a node does whose checkpoints exceed their share of memory.
    private func dropCursors(_ node: SimulatedNode, every pause: UInt64, until end: UInt64) {
        guard !isOver, cluster.world.now < end else { return }
        for bucket in node.node?.data.buckets ?? [] {
            effects["droppedCursor", default: 0] += bucket.dropCursors()
        }
        cluster.world.after(pause) { [weak self] in
            self?.dropCursors(node, every: pause, until: end)
        }
    }

    /// Lowers the quotas of a node's buckets to 50 to 130 percent of their usage for a duration.
    private func squeeze(_ node: SimulatedNode, for nanoseconds: UInt64) {
        cluster.world.transcript.note("memory of \(node.address) is short")
        guard squeeze(node, { $0 * (50 + self.random.next() % 80) / 100 }) else { return }
        cluster.world.after(nanoseconds) { [weak self] in
            guard let self, !isOver else { return }
            release()
        }
    }

    /// Lowers the quotas of a node's buckets so that writes are refused after `room` more bytes.
    func squeeze(_ node: SimulatedNode, leaving room: UInt64) {
        _ = squeeze(node) { ($0 + room) * 100 / 93 }
    }

    private func squeeze(_ node: SimulatedNode, _ quota: (UInt64) -> UInt64) -> Bool {
        guard let data = node.node?.data else { return false }
        for bucket in data.buckets {
            let account = bucket.engine.account
            if !squeezed.contains(where: { $0.account === account }) {
                squeezed.append((account, account.quota))
            }
            account.quota = max(1, quota(account.bytes))
        }
        return true
    }

    /// Restores all quotas.
    func release() {
        for bucket in cluster.nodes.compactMap({ $0.node?.data }).flatMap(\.buckets)
        where squeezed.contains(where: { $0.account === bucket.engine.account }) {
            let ejected = bucket.engine.all.reduce(0) { sum, vBucket in
                sum
                    + vBucket.withCore {
                        $0.ejectedCount + $0.ejectedTombstoneCount + $0.table.stubCount
                    }
            }
            effects["ejectedDocument", default: 0] += ejected
        }
        for (account, granted) in squeezed { account.quota = granted }
        squeezed = []
    }
}
