import ClusterService
import Credentials
import Orchestration
import Seams
import TestSupport
import Testing
import Vocabulary

/// Each node writes an event of a change of users or members, with its login and its proposer.
@Suite(.serialized) struct ChangeTrailTests {
    private static func keys(_ byte: UInt8) -> NodeKeys {
        NodeSecrets(seed: [UInt8](repeating: byte, count: NodeSecrets.seedByteCount)).publicKeys
    }

    private static func world() -> ClusterState {
        var state = ClusterState(memoryQuota: 1 << 30)
        for number in 1...2 {
            let new = NewNode(
                uuid: "u\(number)",
                host: "10.0.0.\(number)",
                ports: NodePorts(admin: 8_091, data: 11_210, peer: 11_209),
                keys: keys(UInt8(number))
            )
            _ = state.apply(.addNode(new), at: UInt64(number))
        }
        let administrator = Administrator(name: "root", credentials: [1])
        let birth = Initialisation(uuid: "c", groupID: 7, administrator: administrator)
        _ = state.apply(.initialise(birth), at: 3)
        return state
    }

    private static func trail(_ command: ClusterCommand, by login: String?) -> ChangeTrail? {
        let before = world()
        var state = before
        let envelope = ClusterEnvelope(
            proposer: NodeNumber(1),
            boot: 1,
            number: 1,
            login: login,
            command: command
        )
        let outcome = state.apply(envelope, at: 4)
        return ChangeTrail(envelope, outcome, before: before)
    }

    private static func user(_ id: String) -> ClusterCommand {
        let password = UserChange.Password(credentials: [1], changedSeconds: 1)
        let roles = Grants([RoleGrant(.admin)])
        return .putUser(UserChange(id: id, name: "", roles: roles, password: password))
    }

    @Test func eventNamesLoginChangeAndProposer() throws {
        let made = try #require(Self.trail(Self.user("eve"), by: "root"))
        let text = "The user \"eve\" was created by \"root\", with the role admin. "
        #expect(made.text == text + "Proposed by 10.0.0.1:8091." && made.severity == .info)
        let new = NewNode(
            uuid: "u3",
            host: "10.0.0.3",
            ports: NodePorts(admin: 8_091, data: 11_210, peer: 11_209),
            keys: Self.keys(3)
        )
        let added = try #require(Self.trail(.addNode(new), by: "root"))
        #expect(added.text.hasPrefix("Node 10.0.0.3:8091 was added by \"root\", with the key "))
        #expect(Self.trail(.setName("x"), by: "root") == nil)
    }

    @Test func refusalNamesTheMissingPermission() throws {
        let refused = try #require(Self.trail(.removeNode(NodeNumber(1)), by: nil))
        let start =
            "Node 10.0.0.1:8091 was not removed: a rule of the cluster lacks the permission "
            + "cluster.pools!write. Proposed by 10.0.0.1:8091, "
        #expect(refused.text.hasPrefix(start) && refused.severity == .warning)
        let eve = try #require(Self.trail(Self.user("x"), by: "eve"))
        #expect(eve.text.contains("\"eve\" lacks the permission cluster.admin.security!write"))
        // A name that a node with a fault proposes does not end up in the log.
        let forged = try #require(Self.trail(.deleteUser(id: "\" by \"root\n"), by: "a\"b\n"))
        let none = "(a name that no user can have)"
        #expect(forged.text.hasPrefix("The user \(none) was not deleted: \(none) lacks"))
    }

    /// The list of all nodes' events has a change once, and both tellings if they differ.
    @Test func everyNodeWritesTheChangeAndTheListHasItOnce() async throws {
        let scene = try ClusterScene(2)
        defer { scene.stop() }
        try await scene.build()
        let form = FormParameters([("password", "secret"), ("roles", "ro_admin")])
        guard case .success = await Result(of: try await scene[2].users.put("eve", form, by: root))
        else {
            throw SceneError("no user")
        }
        let tells = { (entry: EventLog.Entry) in
            entry.text.hasPrefix("The user \"eve\" was created by \"Administrator\"")
        }
        let isTold = await eventually {
            scene[1].cluster.events.all().contains(where: tells)
                && scene[2].cluster.events.all().contains(where: tells)
        }
        #expect(isTold)
        let index = try #require(scene[1].cluster.events.all().first(where: tells)?.index)
        #expect(index > 0)
        let listed = await scene[1].statistics.events(sinceMilliseconds: 0, countMax: 500)
        #expect(listed.filter { tells($0.entry) }.map(\.node) == [scene[1].thisNode])
        scene[2].cluster.logEvent(.info, .settings, index: index, "The user \"eve\" was deleted.")
        let both = await scene[1].statistics.events(sinceMilliseconds: 0, countMax: 500)
        #expect(both.filter { $0.entry.index == index }.count == 2)
        // A mistake of a node: it proposes what its login may not order.
        let forged = try await scene[2].cluster.propose(.deleteUser(id: "eve"), by: "eve")
        guard case .refused(.notPermitted) = forged else { throw SceneError("\(forged)") }
        let isNoticed = await eventually {
            scene[1].cluster.events.all().contains {
                $0.text.hasPrefix("The user \"eve\" was not deleted: \"eve\" lacks")
            }
        }
        #expect(isNoticed)
    }
}
