import Bytes
import Orchestration
import TestSupport
import Vocabulary

/// Random commands: some fit the state, some are too late, some are never valid.
struct CommandDice {
    var random: SeededRandom
    private var nodesMade = 0
    private var bucketsMade = 0
    /// For design documents; nil if there are none.
    ///
    /// A separate sequence, so that all other commands of a seed do not depend on it.
    private var designs: SeededRandom?
    /// For local users; nil if there are none.
    private var users: SeededRandom?

    init(seed: UInt64, hasDesigns: Bool = false, hasUsers: Bool = false) {
        random = SeededRandom(seed: seed)
        users = hasUsers ? SeededRandom(seed: seed ^ 0x7573_6572) : nil
        designs = hasDesigns ? SeededRandom(seed: seed ^ 0x6465_7369_676e) : nil
    }

    mutating func below(_ bound: Int) -> Int { random.below(bound) }

    mutating func oneIn(_ bound: Int) -> Bool { below(bound) == 0 }

    mutating func pick<Element>(_ list: [Element]) -> Element? {
        list.isEmpty ? nil : list[below(list.count)]
    }

    mutating func text() -> String {
        pick(["", "b", "Rack 1", "caf\u{e9}", "\u{1F600}", "a longer name than others"]) ?? ""
    }

    mutating func row(of nodes: [NodeNumber], atMost: Int) -> NodeChain {
        var row: [NodeNumber] = []
        for _ in 0..<atMost {
            if let node = pick(nodes), !row.contains(node) { row.append(node) }
        }
        return NodeChain(row) ?? []
    }

    mutating func position() -> CopyPosition {
        CopyPosition(branchFence: UInt64(below(300)), covered: Seqno(random.next() >> 20))
    }

    mutating func envelope(for state: ClusterState) -> ClusterEnvelope {
        let login = oneIn(8) ? pick(state.users.map(\.id)) : state.administrator?.name
        var command = command(for: state)
        if case .startRebalance(var record) = command, !oneIn(8) {
            record.login = login?.isEmpty == true ? nil : login
            command = .startRebalance(record)
        }
        return ClusterEnvelope(
            proposer: n(1 + below(3)),
            boot: UInt64(below(3)),
            number: UInt64(below(90)),
            login: login,
            command: command
        )
    }

    mutating func command(for state: ClusterState) -> ClusterCommand {
        if let command = designCommand(for: state) ?? userCommand(for: state) { return command }
        // Most commands need a bucket.
        if state.buckets.isEmpty, state.rebalance == nil, oneIn(2) {
            return bucketCommand(for: state)
        }
        return switch below(40) {
        case 0..<5: nodeCommand(for: state)
        case 5..<8: clusterCommand(for: state)
        case 8..<12: bucketCommand(for: state)
        case 12..<18: rebalanceCommand(for: state)
        case 18..<19: .failOver(failover(for: state))
        default: ownershipCommand(for: state)
        }
    }

    /// One command in six, if there are design documents; some set a port for views.
    private mutating func designCommand(for state: ClusterState) -> ClusterCommand? {
        guard var dice = designs else { return nil }
        defer { designs = dice }
        guard dice.below(6) == 0, !state.buckets.isEmpty else { return nil }
        if dice.below(6) == 0 {
            let node = state.nodes[dice.below(state.nodes.count)]
            var address = NodeAddress(number: node.number, host: node.host, ports: node.ports)
            address.ports.views = [0, 8_092, UInt16(dice.below(65_536))][dice.below(3)]
            return .setNode(address)
        }
        if dice.below(12) == 0 {
            var indexing = state.indexing
            indexing.updateMinChanges = UInt64(dice.below(10_000))
            indexing.fragmentationPercent = [nil, 2, 30][dice.below(3)]
            return .setIndexing(IndexingChange(indexing, was: state.indexing))
        }
        let bucket = state.buckets[dice.below(state.buckets.count)]
        let uuid = dice.below(10) == 0 ? "gone" : bucket.settings.uuid
        let name = ["x", "dev_x", "caf\u{e9}", "cafe\u{301}", ""][dice.below(5)]
        if dice.below(3) == 0 {
            let was = dice.below(3) == 0 ? bucket.designDocument(named: "x")?.revision : nil
            return .deleteDesignDocument(.init(bucket: uuid, name: name, was: was))
        }
        let texts = ["{}", #"{"views":{"v":{"map":"m"}}}"#, "no JSON", ""]
        let body = Array(texts[dice.below(texts.count)].utf8)
        var change = DesignDocumentChange(bucket: uuid, name: name, body: body)
        if dice.below(3) == 0 { change.was = bucket.designDocument(named: "x")?.revision }
        return .putDesignDocument(change)
    }

    /// One command in eight, if there are users.
    private mutating func userCommand(for state: ClusterState) -> ClusterCommand? {
        guard var dice = users else { return nil }
        defer { users = dice }
        guard dice.below(8) == 0 else { return nil }
        let id = ["ann", "bob", "caf\u{e9}", "cafe\u{301}", "b", "", "a:b"][dice.below(7)]
        let password = UserChange.Password(
            credentials: [UInt8(dice.below(256)), 2],
            changedSeconds: UInt64(dice.below(9_000))
        )
        if dice.below(5) == 0 { return .deleteUser(id: id) }
        if dice.below(5) == 0 {
            let was = dice.below(3) == 0 ? [] : state.user(id)?.credentials ?? [1]
            return .changePassword(PasswordChange(id: id, password: password, was: was))
        }
        let buckets = state.buckets.map(\.settings.name) + (dice.below(10) == 0 ? ["gone"] : [])
        let grants = (0..<dice.below(4)).map { _ in
            let role = Role.allCases[dice.below(Role.allCases.count)]
            let isForAll = !role.isScoped || buckets.isEmpty || dice.below(4) == 0
            return RoleGrant(role, bucket: isForAll ? nil : buckets[dice.below(buckets.count)])
        }
        var change = UserChange(
            id: id,
            name: ["", "Ann B"][dice.below(2)],
            roles: Grants(grants),
            password: dice.below(3) == 0 ? nil : password
        )
        let present = state.user(id)?.basis ?? UserChange.Basis(name: "", roles: Grants([]))
        change.was = [.any, .any, .absent, .version(present)][dice.below(4)]
        return .putUser(change)
    }

    private mutating func failover(for state: ClusterState) -> FailoverStep {
        let nodes =
            oneIn(8) ? [n(1 + below(9))] : pick(state.activeNodes.map(\.number)).map { [$0] }
        return FailoverStep(nodes: nodes ?? [], isAutomatic: oneIn(2), mayLose: !oneIn(4))
    }

    private mutating func clusterCommand(for state: ClusterState) -> ClusterCommand {
        switch below(8) {
        case 6: return .raiseFeatureLevel(FeatureLevel(UInt16(below(3))))
        case 0:
            let administrator = Administrator(name: text(), credentials: [1, UInt8(below(256))])
            let birth = Initialisation(
                uuid: "c",
                groupID: random.next(),
                administrator: administrator
            )
            return .initialise(birth)
        case 1: return .setAdministrator(Administrator(name: text(), credentials: []))
        case 2: return .setName(text())
        case 3: return .setMemoryQuota(random.next())
        case 4:
            var settings = state.settings
            settings.autoFailover.timeoutSeconds = UInt16(1 + below(3_600))
            settings.autoFailover.isEnabled = oneIn(2)
            settings.autoFailover.isForDiskIssues = oneIn(2)
            settings.movesPerNode = UInt16(1 + below(64))
            settings.retry.isEnabled = oneIn(2)
            settings.passwords.iterations = UInt32(4_096 + below(1_000))
            settings.passwords.offersSHA1 = oneIn(2)
            settings.retry.afterSeconds = UInt16(5 + below(300))
            settings.retry.attemptsMax = UInt16(1 + below(3))
            return .setSettings(settings, was: oneIn(2) ? state.settings : nil)
        case 5 where oneIn(4):
            let survivors = state.nodes.map(\.number).filter { _ in !oneIn(4) }
            let began = UInt64(below(9_000))
            return .newEpoch(
                NewEpoch(
                    groupID: random.next(),
                    formerGroupID: state.groupID,
                    survivors: survivors,
                    beganMilliseconds: began
                ).ordered(by: state.administrator.flatMap { $0.name.isEmpty ? nil : $0.name })
            )
        default: return .resetAutoFailoverCount
        }
    }

    private mutating func nodeCommand(for state: ClusterState) -> ClusterCommand {
        let number = pick(state.nodes.map(\.number)) ?? n(1)
        switch below(6) {
        case 0 where state.nodes.count < 7:
            nodesMade += 1
            var node = ClusterWorld.node(1 + nodesMade)
            node.group = pick(state.groups.map(\.name)) ?? ""
            node.level = FeatureLevel(UInt16(below(3)))
            return .addNode(node)
        case 1:
            let ports = NodePorts(admin: UInt16(below(65_000)), data: 1, adminTLS: 2, peer: 3)
            var address = NodeAddress(number: number, host: text(), ports: ports)
            if oneIn(2) { address.level = FeatureLevel(UInt16(below(3))) }
            return .setNode(address)
        case 2: return .removeNode(number)
        case 3:
            let names = oneIn(2) ? ["Group 1", "Rack 1"] : ["Rack 1", "Rack 2"]
            let groups = names.enumerated().map { ServerGroup(name: $1, uuid: "\($0)") }
            let member = GroupLayout.Member(node: number, group: "Rack 1")
            var layout = GroupLayout(groups: groups, members: oneIn(2) ? [member] : [])
            if oneIn(2) { layout.revision = state.groupsRevision }
            return .setGroups(layout)
        case 4:
            let port = AlternateAddress.Port(service: "kv", number: UInt16(1 + below(65_000)))
            let address = AlternateAddress(host: text(), ports: oneIn(2) ? [port] : [])
            return .setAlternate(
                AlternateChange(number: number, address: oneIn(3) ? nil : address)
            )
        default:
            return .setNodeState(
                NodeStateChange(
                    number: number,
                    membership: NodeMembership(rawValue: UInt8(below(4))) ?? .active,
                    recovery: RecoveryType(rawValue: UInt8(below(3))) ?? .none
                )
            )
        }
    }

    private mutating func bucketCommand(for state: ClusterState) -> ClusterCommand {
        let active = state.activeNodes.map(\.number)
        guard let bucket = pick(state.buckets), !oneIn(3) else {
            bucketsMade += 1
            let name = "b\(state.buckets.count)"
            var settings = BucketSettings(name: name, uuid: "u\(bucketsMade)", quota: 1)
            settings.type = oneIn(2) ? .persistent : .ephemeral
            settings.replicas = below(4)
            settings.minimumDurability = DurabilityLevel(rawValue: UInt8(below(4)))
            settings.vBuckets = 3
            settings.flushEnabled = true
            let rows = (0..<3).map { _ in row(of: active, atMost: 1 + settings.replicas) }
            return .createBucket(NewBucket(settings: settings, options: .init(), rows: rows))
        }
        var settings = bucket.settings
        let phase: BucketStep.Phase = oneIn(2) ? .begin : .end
        let flush = oneIn(4) ? below(9) : Int(bucket.flush ?? 0)
        let step = BucketStep(
            name: settings.name,
            uuid: settings.uuid,
            phase: phase,
            flush: UInt64(flush)
        )
        switch below(8) {
        case 0: return .deleteBucket(step)
        case 1...4: return .flushBucket(step)
        case 5:
            let gone = pick(state.deletedBuckets)
            let name = gone?.name ?? ""
            return .deleteBucket(BucketStep(name: name, uuid: gone?.uuid ?? "", phase: .end))
        default:
            settings.replicas = below(4)
            settings.passwordless = [.none, .loopback, .network][below(3)]
            var change = BucketChange(settings: settings, options: bucket.options)
            if oneIn(2) {
                change.was = .init(settings: bucket.settings, options: bucket.options)
            }
            return .changeBucket(change)
        }
    }

    private mutating func rebalanceCommand(for state: ClusterState) -> ClusterCommand {
        let kind: RebalanceRecord.Kind = oneIn(4) ? .gracefulFailover : .rebalance
        guard let running = state.rebalance, !oneIn(10) else {
            let all = state.nodes.filter {
                kind == .rebalance ? $0.membership != .joining : $0.membership == .active
            }
            let ejected = all.filter { $0.membership == .inactiveFailed || oneIn(5) }
            let kept = all.filter { !ejected.contains($0) }
            return .startRebalance(
                RebalanceRecord(
                    id: "r\(state.index)",
                    kind: kind,
                    kept: kept.map(\.number),
                    ejected: ejected.map(\.number),
                    startedMilliseconds: random.next()
                )
            )
        }
        if oneIn(8) {
            let ending = RebalanceOutcome.Ending(rawValue: UInt8(below(3))) ?? .failed
            return .endRebalance(
                RebalanceOutcome(
                    id: running.id,
                    ending: ending,
                    sentence: text(),
                    endedMilliseconds: random.next()
                )
            )
        }
        if oneIn(8) {
            let parts = state.nodes.map { node in
                RebalanceMark.Part(node: node.number, reached: UInt16(below(1_001)))
            }
            let reached = RebalanceMark(all: UInt16(below(1_001)), parts: parts)
            return .markRebalance(ProgressStep(rebalance: running.id, reached: reached))
        }
        let bucket = pick(state.buckets)
        let copies = 1 + below(4)
        let rows = (bucket?.placements ?? []).map { placement in
            let active = oneIn(2) ? placement.chain.filter(running.kept.contains).prefix(1) : []
            let others = row(of: running.kept, atMost: copies).without(Array(active))
            return NodeChain((active + others).prefix(copies)) ?? []
        }
        let targets = BucketTargets(copies: UInt8(copies), rows: rows)
        return .setTargets(TargetChange(bucket: bucket?.settings.name ?? "", targets: targets))
    }

    private mutating func ownershipCommand(for state: ClusterState) -> ClusterCommand {
        let moving = state.buckets.filter { $0.targets != nil }
        guard let bucket = pick(moving.isEmpty || oneIn(4) ? state.buckets : moving) else {
            return .setName(text())
        }
        var kind = below(9)
        // Moves in the joint phase should end more often than by chance.
        if let joint = pick(bucket.placements.filter(\.isJoint)), oneIn(2) {
            kind = joint.next.first == joint.chain.first ? 1 : 2
        } else if bucket.placements.contains(where: { $0.former != nil }), oneIn(3) {
            kind = 6
        }
        var steps: [VBucketSteps.Step] = []
        var deposes: [NodeNumber] = []
        for (number, placement) in bucket.placements.enumerated() where !oneIn(3) {
            var step = VBucketSteps.Step(VBucketID(UInt16(number)), from: placement)
            switch kind {
            case 0, 8: step.row = bucket.targets?.rows[number] ?? []
            case 2: step.position = position()
            case 3:
                let asked = placement.chain.nodes + placement.basis.nodes
                step.row = row(of: asked, atMost: Int(placement.copies))
                step.position = position()
                if let active = placement.chain.first { deposes.append(active) }
            case 7: step.row = row(of: state.activeNodes.map(\.number), atMost: 2)
            default: break
            }
            if oneIn(10) { step.fence &-= 1 }
            if oneIn(10) { step.stage &+= 1 }
            steps.append(step)
        }
        let all = VBucketSteps(bucket: bucket.settings.name, steps: steps, deposes: deposes)
        switch kind {
        case 1: return .final(all)
        case 2: return .takeOver(all)
        case 3: return .promote(all)
        case 4: return .confirm(all)
        case 5: return .resume(all)
        case 6: return .release(all)
        case 7: return .recreate(all)
        default: return .joint(all)
        }
    }
}
