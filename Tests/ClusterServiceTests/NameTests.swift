import Bytes
import ClusterService
import Credentials
import Orchestration
import Seams
import TestSupport
import Testing
import Vocabulary

/// Names of nodes: all nodes have loopback addresses, or none.
@Suite struct NameTests {
    let world = World()
    let newcomer = Newcomer()
    let ports = NodePorts(admin: 8_091, data: 11_210, peer: 21_100)

    /// A cluster of one node that listens on `host`.
    func cluster(_ host: String) async throws -> AdministrationService {
        let service = try world.service(RecordingPlane(), probe: newcomer)
        service.applier.openBuckets()
        try await service.start(host: host, ports: ports)
        let form = FormParameters([
            ("port", "SAME"), ("username", "Administrator"), ("password", "password"),
        ])
        guard case .success = await Result(of: try await service.settings.initialise(form)) else {
            throw SceneError("initialise")
        }
        return service
    }

    /// The result of adding a node.
    ///
    /// Its peer port has no listener, so the join never begins.
    func add(_ address: String, to service: AdministrationService) async throws -> String {
        let outcome = Guarded<Result<String, AdministrationError>?>(nil)
        @Sendable func add() async {
            let found = await Result(
                of: try await service.membership.addNode(
                    address,
                    token: "",
                    services: ["kv"],
                    by: root
                )
            )
            outcome.withLock { $0 = found }
        }
        let adding = Task { await add() }
        while outcome.withLock({ $0 == nil }) {
            world.passSecond()
            try await Task.sleep(for: .milliseconds(1))
        }
        await adding.value
        guard case .failure(.refused(let text)) = outcome.withLock({ $0 }) else {
            throw SceneError("not refused")
        }
        return text
    }

    /// The result for a node whose name is accepted.
    let isInvited = "Prepare join failed. The port of the node "

    @Test(arguments: [
        "127.0.0.1:9091", "127.1.2.3:9091", "[::1]:9091", "[0:0:0:0:0:0:0:1]:9091",
        "[::ffff:127.0.0.1]:9091", "0.0.0.0:9091", "localhost:9091", "LocalHost",
        "same-machine:9091",
    ])
    func clusterOfRealAddressesRefusesLoopbackNode(_ address: String) async throws {
        world.network.names.withLock { $0["same-machine"] = ["127.0.1.1", "::1"] }
        let service = try await cluster("10.0.0.1")
        let text = try await add(address, to: service)
        #expect(text.hasPrefix("Prepare join failed."))
        #expect(text.contains("itself") && text.contains("10.0.0.1:8091"))
        #expect(service.state.nodes.map(\.host) == ["10.0.0.1"])
        #expect(service.state.nextNodeNumber == NodeNumber(2))
    }

    @Test(arguments: ["10.0.0.2:9091", "both:9091", "elsewhere:9091", "[fd00::1]:9091"])
    func clusterOfRealAddressesAcceptsReachableNode(_ address: String) async throws {
        world.network.names.withLock { $0["both"] = ["127.0.1.1", "10.0.0.2"] }
        let service = try await cluster("10.0.0.1")
        #expect(try await add(address, to: service).hasPrefix(isInvited))
    }

    @Test(
        arguments: ["127.0.0.1", "0.0.0.0"],
        ["127.0.0.1:9091", "localhost:9091", "same-machine:9091"]
    )
    func loopbackClusterAcceptsLoopbackNode(_ host: String, _ other: String) async throws {
        world.network.names.withLock { $0["same-machine"] = ["127.0.1.1"] }
        let service = try await cluster(host)
        #expect(try await add(other, to: service).hasPrefix(isInvited))
        #expect(service.state.nodes.map(\.host) == ["127.0.0.1"])
    }

    @Test func loneNodeKeepsItsAddressUntilTheAddedNodeHasProvedItself() async throws {
        let service = try await cluster("0.0.0.0")
        #expect(try await add("10.0.0.2:9091", to: service).hasPrefix(isInvited))
        // The node did not prove anything, so the name stays.
        #expect(service.state.nodes.map(\.host) == ["127.0.0.1"])
    }

    /// Its clients would be sent to an address where it does not listen.
    @Test func loneNodeListeningOnLoopbackKeepsItsAddress() async throws {
        let service = try await cluster("127.0.0.1")
        let text = try await add("10.0.0.2:9091", to: service)
        #expect(text.contains("listens on 127.0.0.1 only") && text.contains("--bind"))
        #expect(service.state.nodes.map(\.host) == ["127.0.0.1"])
    }

    @Test func addingFailsWhenLoneNodeHasNoReachableAddress() async throws {
        let service = try await cluster("0.0.0.0")
        newcomer.seen.withLock { $0 = "" }
        let text = try await add("10.0.0.2:9091", to: service)
        #expect(text.contains("loopback address 127.0.0.1") && text.contains("rename"))
        #expect(service.state.nodes.count == 1)
    }

    @Test func loopbackClusterRefusesRemoteNode() async throws {
        let service = try await cluster("0.0.0.0")
        var second = NewNode(
            uuid: "second",
            host: "127.0.0.1",
            ports: NodePorts(admin: 1, data: 2),
            keys: NodeSecrets(seed: [UInt8](repeating: 2, count: 32)).publicKeys
        )
        second.level = .current
        _ = try await service.cluster.propose(.addNode(second), by: root)
        let text = try await add("10.0.0.2:9091", to: service)
        #expect(text.contains("know each other by loopback addresses"))
        #expect(service.state.nodes.map(\.host) == ["127.0.0.1", "127.0.0.1"])
    }

    /// A node that has just left a cluster.
    @Test func nodeWithoutRecordOfItselfIsAskedAgain() async throws {
        let service = try await cluster("10.0.0.1")
        newcomer.firstAnswers.withLock { $0 = [(503, 5)] }
        #expect(try await add("10.0.0.2:9091", to: service).hasPrefix(isInvited))
        #expect(newcomer.firstAnswers.withLock { $0.isEmpty })
    }

    @Test func nodeThatNeverHasRecordOfItselfIsNotReady() async throws {
        let service = try await cluster("10.0.0.1")
        newcomer.firstAnswers.withLock { $0 = [(503, 1_000)] }
        let text = try await add("10.0.0.2:9091", to: service)
        #expect(text.contains("10.0.0.2:9091 is not ready"))
        #expect(service.state.nodes.count == 1)
    }

    @Test func addOfServerThatAnswers500IsRefusedAsNoDivanNode() async throws {
        let service = try await cluster("10.0.0.1")
        newcomer.firstAnswers.withLock { $0 = [(500, 1)] }
        let text = try await add("10.0.0.2:9091", to: service)
        #expect(text.hasSuffix("The server at 10.0.0.2:9091 is not a Divan node."))
    }

    @Test func nodeInClusterCannotBeRenamed() async throws {
        let service = try await cluster("10.0.0.1")
        var second = NewNode(
            uuid: "second",
            host: "10.0.0.2",
            ports: NodePorts(admin: 1, data: 2),
            keys: NodeSecrets(seed: [UInt8](repeating: 2, count: 32)).publicKeys
        )
        second.level = .current
        _ = try await service.cluster.propose(.addNode(second), by: root)
        for name in ["127.0.0.1", "localhost", "elsewhere"] {
            guard
                case .failure(.refused(let text)) = await Result(
                    of: try await service.addresses.rename(to: name)
                )
            else {
                Issue.record("renamed to \(name)")
                continue
            }
            #expect(text.contains("part of a cluster with other nodes"))
        }
        #expect(service.state.nodes.map(\.host) == ["10.0.0.1", "10.0.0.2"])
    }

    /// By a loopback address in the map, every client would connect to its own machine.
    @Test func nodeRestartedOnLoopbackKeepsItsName() async throws {
        let first = try await cluster("10.0.0.1")
        var second = NewNode(
            uuid: "second",
            host: "10.0.0.2",
            ports: NodePorts(admin: 1, data: 2),
            keys: NodeSecrets(seed: [UInt8](repeating: 2, count: 32)).publicKeys
        )
        second.level = .current
        _ = try await first.cluster.propose(.addNode(second), by: root)
        first.stop()
        let again = try world.service(RecordingPlane(), probe: newcomer)
        again.applier.openBuckets()
        try await again.start(host: "127.0.0.1", ports: NodePorts(admin: 9_000, data: 2, peer: 3))
        let isTold = await eventually {
            again.cluster.events.all().contains { $0.text.contains("listens on 127.0.0.1 only") }
        }
        #expect(isTold)
        let own = try #require(again.state.node(number: again.thisNode))
        #expect(own.host == "10.0.0.1" && own.ports.admin == 9_000)
    }
}

/// A node without a cluster, or a cluster that refuses every node.
final class Newcomer: NodeProbe {
    let seesUsAt = "10.0.0.1"
    let seen = Guarded<String?>(nil)
    /// What requests for its description are answered with first: a status, and how often.
    let firstAnswers = Guarded<[(status: Int, times: Int)]>([])

    func ask(_ request: ProbeRequest) async -> ProbeAnswer {
        let local = seen.withLock { $0 } ?? seesUsAt
        if request.path != "/pools", let status = nextFirstAnswer() {
            return .answered(status: status, body: [], localHost: local)
        }
        let json =
            request.path == "/pools"
            ? #"{"divanVersion":"\#(Release.version)","pools":[]}"#
            : #"{"port":21100}"#
        return .answered(status: 200, body: Array(json.utf8), localHost: local)
    }

    private func nextFirstAnswer() -> Int? {
        firstAnswers.withLock { answers in
            guard let first = answers.first else { return nil }
            answers[0].times -= 1
            if first.times == 1 { answers.removeFirst() }
            return first.status
        }
    }
}
