import Bytes
import Orchestration
import Testing
import Vocabulary

/// Commands that change users, the administrator or members need a login that may order them.
@Suite struct LoginOfCommandTests {
    /// A change that a fresh cluster of three nodes, with the user "ann", accepts from the administrator.
    enum Change: CaseIterable {
        case administrator
        case user
        case deletion
        case password
        case node
        case removal
        case recovery
        case failover
        case rebalance

        /// Whether it needs the permission to change users and to add nodes.
        var isAboutUsers: Bool {
            switch self {
            case .administrator, .user, .deletion, .password, .node: true
            case .removal, .recovery, .failover, .rebalance: false
            }
        }

        func command(by login: String?) -> ClusterCommand {
            let password = UserChange.Password(credentials: [9], changedSeconds: 1)
            switch self {
            case .administrator:
                return .setAdministrator(Administrator(name: "root", credentials: [1]))
            case .user:
                return .putUser(
                    UserChange(id: "eve", name: "", roles: Grants([]), password: password)
                )
            case .deletion: return .deleteUser(id: "ann")
            case .password:
                return .changePassword(PasswordChange(id: "ann", password: password, was: [1]))
            case .node: return .addNode(ClusterWorld.node(7))
            case .removal: return .removeNode(n(3))
            case .recovery:
                return .setNodeState(
                    NodeStateChange(number: n(3), membership: .inactiveAdded, recovery: .full)
                )
            case .failover:
                return .failOver(FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: false))
            case .rebalance:
                var record = RebalanceRecord(
                    id: "r",
                    kind: .rebalance,
                    kept: [n(1), n(2)],
                    ejected: [n(3)],
                    startedMilliseconds: 1
                )
                record.login = login?.isEmpty == true ? nil : login
                return .startRebalance(record)
            }
        }
    }

    /// Node 3 is failed over.
    private static func world() -> ClusterWorld {
        var world = ClusterWorld(nodes: 3)
        world.apply(.failOver(FailoverStep(nodes: [n(3)], isAutomatic: false, mayLose: true)))
        for (id, role) in [("ann", Role.dataReader), ("operator", .clusterAdmin), ("boss", .admin)]
        {
            let grant = role == .dataReader ? RoleGrant(.readOnlyAdmin) : RoleGrant(role)
            let password = UserChange.Password(credentials: [1], changedSeconds: 1)
            let change = UserChange(id: id, name: "", roles: Grants([grant]), password: password)
            world.apply(.putUser(change))
        }
        return world
    }

    private static func outcome(
        _ command: ClusterCommand,
        by login: String?,
        from proposer: NodeNumber = n(2),
        in world: ClusterWorld
    ) -> ClusterOutcome {
        var state = world.state
        let envelope = ClusterEnvelope(
            proposer: proposer,
            boot: 1,
            number: 1,
            login: login,
            command: command
        )
        let read = try? ClusterEnvelope(decoding: envelope.encoded)
        #expect(read == envelope)
        let before = state
        let outcome = state.apply(envelope, at: world.index + 1)
        if outcome == .refused(.notPermitted) {
            #expect(state.nodes == before.nodes && state.users == before.users)
            #expect(
                state.administrator == before.administrator && state.rebalance == before.rebalance
            )
        }
        return outcome
    }

    @Test(arguments: Change.allCases) func loginNeedsThePermission(_ change: Change) {
        let world = Self.world()
        let logins: [(name: String?, isPermitted: Bool)] = [
            ("Administrator", true), ("boss", true), ("operator", !change.isAboutUsers),
            ("ann", change == .password), ("gone", false), ("", false), (nil, false),
        ]
        for login in logins {
            let outcome = Self.outcome(change.command(by: login.name), by: login.name, in: world)
            let isApplied = if case .applied = outcome { true } else { false }
            #expect(isApplied == login.isPermitted, "\(change) by \(login.name ?? "-"): \(outcome)")
            if !login.isPermitted { #expect(outcome == .refused(.notPermitted)) }
        }
    }

    @Test func rebalanceKeepsItsLoginForItsEndAndItsRetry() {
        var world = Self.world()
        let foreign = Change.rebalance.command(by: "boss")
        #expect(Self.outcome(foreign, by: "operator", in: world) == .refused(.notPermitted))
        var settings = world.state.settings
        settings.retry.isEnabled = true
        world.apply(.setSettings(settings))
        world.apply(Change.rebalance.command(by: "operator"))
        #expect(world.state.rebalance?.login == "operator")
        world.end("r", .failed)
        #expect(world.state.retry?.login == "operator")
        #expect(world.state.retry?.record.login == "operator")
        guard case .state(let read) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(read == world.state)
    }

    /// The end of a graceful failover, and a password of a user whose name only looks the same.
    @Test func permissionIsThatOfTheStartAndOfTheSameBytes() {
        var world = Self.world()
        var record = RebalanceRecord(
            id: "g",
            kind: .gracefulFailover,
            kept: [n(1)],
            ejected: [n(2)],
            startedMilliseconds: 1
        )
        record.login = "operator"
        world.apply(.startRebalance(record))
        world.apply(.deleteUser(id: "operator"))
        let end = FailoverStep(nodes: [n(2)], isAutomatic: false, mayLose: false)
        let other = FailoverStep(nodes: [n(1)], isAutomatic: false, mayLose: false)
        let isPermitted = { (step: FailoverStep) in
            Self.outcome(.failOver(step), by: "operator", in: world) != .refused(.notPermitted)
        }
        #expect(isPermitted(end) && !isPermitted(other))
        let password = UserChange.Password(credentials: [9], changedSeconds: 1)
        let change = PasswordChange(id: "caf\u{e9}", password: password, was: [1])
        #expect(
            Self.outcome(.changePassword(change), by: "cafe\u{301}", in: world)
                == .refused(.notPermitted)
        )
    }

    /// A leader's decision by the rules of the cluster has no login.
    @Test func rulesOfTheClusterNeedNoLogin() {
        var world = Self.world()
        world.apply(.addNode(ClusterWorld.node(8)))
        let joining = n(4)
        let joined = NodeStateChange(number: joining, membership: .inactiveAdded)
        let automatic = FailoverStep(nodes: [n(2)], isAutomatic: true, mayLose: false)
        for command in [
            ClusterCommand.setNodeState(joined), .removeNode(joining), .failOver(automatic),
        ] {
            let outcome = Self.outcome(command, by: nil, in: world)
            #expect(outcome != .refused(.notPermitted), "\(command)")
        }
        let lossy = FailoverStep(nodes: [n(2)], isAutomatic: true, mayLose: true)
        #expect(Self.outcome(.failOver(lossy), by: nil, in: world) == .refused(.notPermitted))
        world.apply(.setNodeState(joined))
        #expect(
            Self.outcome(.removeNode(joining), by: nil, in: world) == .refused(.notPermitted)
        )
    }

    /// `--administrator` provisions a new node before it listens.
    @Test func firstNodeOfAProvisionedClusterAnnouncesItself() {
        var world = ClusterWorld()
        let administrator = Administrator(name: "Administrator", credentials: [1])
        world.apply(
            .initialise(Initialisation(uuid: "c", groupID: 7, administrator: administrator))
        )
        let outcome = Self.outcome(.addNode(ClusterWorld.node(1)), by: nil, in: world)
        #expect(outcome == .applied([.nodeAdded(n(1)), .nodesChanged]))
        world.apply(.addNode(ClusterWorld.node(1)))
        let next = ClusterCommand.addNode(ClusterWorld.node(2))
        let second = Self.outcome(next, by: nil, from: n(1), in: world)
        #expect(second == .refused(.notPermitted))
    }

    @Test func newEpochNeedsThePermission() {
        for (login, isPermitted) in [("operator", true), ("ann", false), ("gone", false)] {
            var world = Self.world()
            let epoch = NewEpoch(
                groupID: 99,
                formerGroupID: 7,
                survivors: [n(1)],
                beganMilliseconds: 1
            ).ordered(by: login)
            let outcome = world.apply(.newEpoch(epoch))
            #expect((outcome == .refused(.notPermitted)) == !isPermitted)
            #expect(world.state.epochLogin == (isPermitted ? login : nil))
            guard case .state(let read) = ClusterState.decode(world.state.encoded()) else {
                Issue.record("not decoded")
                return
            }
            #expect(read == world.state)
        }
    }
}
