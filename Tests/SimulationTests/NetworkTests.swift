import Bytes
import Seams
import SimulatedPlatform
import Testing

/// A pair of hosts with a connection.
private final class Pair {
    let world: SimulatedWorld
    let hosts: [SimulatedHost]
    private let servers = Guarded<[Talker]>([])
    private let clients = Guarded<[Talker]>([])
    private let errors = Guarded<[NetworkError]>([])
    var environments: [Environment]
    var listener: (any Listener)?

    static let millisecond: UInt64 = 1_000_000
    static let address = SocketAddress(host: "10.0.0.1", port: 11_210)

    init(seed: UInt64 = 5) {
        world = SimulatedWorld(seed: seed)
        let world = world
        hosts = ["10.0.0.1", "10.0.0.2"].map { world.addHost($0, reactors: 2) }
        environments = hosts.map { $0.start() }
    }

    func listen(_ act: @escaping Talker.Act = Talker.listening) throws {
        let address = SocketAddress(host: "0.0.0.0", port: 11_210)
        let act = Unchecked(act)
        listener = try environments[0].network.listen(on: address) { [servers] port in
            let talker = Talker(port, act.value)
            servers.withLock { $0.append(talker) }
            return talker
        }
    }

    func connect(_ act: @escaping Talker.Act = Talker.listening) {
        let act = Unchecked(act)
        environments[1].network.connect(
            to: Pair.address,
            connected: { [clients] port in
                let talker = Talker(port, act.value)
                clients.withLock { $0.append(talker) }
                return talker
            },
            failed: { [errors] error in errors.withLock { $0.append(error) } }
        )
    }

    func pass(_ milliseconds: UInt64 = 50) { world.run(for: milliseconds * Pair.millisecond) }

    var server: Talker? { servers.withLock { $0.last } }
    var client: Talker? { clients.withLock { $0.last } }
    var failures: [NetworkError.Code] { errors.withLock { $0.map(\.code) } }
    var allServers: [Talker] { servers.withLock { $0 } }
    var allClients: [Talker] { clients.withLock { $0 } }
    var serverCount: Int { servers.withLock { $0.count } }

    func open() throws -> (server: Talker, client: Talker) {
        connect()
        pass()
        return (try #require(server), try #require(client))
    }
}

private struct Unchecked<Value>: @unchecked Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }
}

@Suite struct NetworkTests {
    private func bytes(_ count: Int) -> [UInt8] { (0..<count).map { UInt8($0 * 7 & 0xff) } }

    @Test func bytesArriveInOrderUnderRandomSplits() throws {
        for seed in 1...20 as ClosedRange<UInt64> {
            let pair = Pair(seed: seed)
            try pair.listen()
            let (server, client) = try pair.open()
            #expect(server.port.peer.host == "10.0.0.2")
            let sent = bytes(200_000)
            for start in stride(from: 0, to: sent.count, by: 10_000) {
                client.send(Array(sent[start..<start + 10_000]))
                pair.pass(1)
            }
            pair.pass()
            #expect(server.heard == sent)
        }
    }

    @Test func unconsumedInputPrecedesNewInput() throws {
        let pair = Pair()
        // Consumes whole groups of four bytes.
        try pair.listen { talker, input, _ in
            talker.inputs.append(input.bytes)
            return ReceiveProgress(consumed: input.count / 4 * 4, next: .receive)
        }
        let (server, client) = try pair.open()
        client.send([1, 2, 3])
        pair.pass()
        client.send([4, 5])
        pair.pass()
        client.send([6, 7, 8])
        pair.pass()
        #expect(server.inputs.last == [5, 6, 7, 8])
        #expect(server.inputs.dropLast().contains([1, 2, 3, 4, 5]) || server.inputs.count > 4)
    }

    @Test func pausedHandlerIsNotCalledUntilItIsWoken() throws {
        let pair = Pair()
        try pair.listen { talker, input, _ in
            talker.inputs.append(input.bytes)
            return talker.wakes > 0
                ? ReceiveProgress(consumed: input.count, next: .receive)
                : ReceiveProgress(consumed: 1, next: .pause)
        }
        let (server, client) = try pair.open()
        client.send([1, 2])
        pair.pass()
        client.send([3])
        pair.pass()
        let calls = server.inputs.count
        server.port.wake()
        pair.pass()
        #expect(calls <= 2)
        #expect(server.wakes == 1)
        #expect(server.inputs[calls].first == 2)
        #expect(server.inputs.last?.last == 3)
    }

    @Test func replyLargerThanTheWindowIsSentInPieces() throws {
        let pair = Pair()
        pair.world.network.windowBytes = 10_000
        let reply = bytes(1_000)
        // Ten replies, each after the previous one was sent.
        try pair.listen { talker, input, output in
            guard input.count > 0 else { return ReceiveProgress(consumed: 0, next: .receive) }
            talker.inputs.append([])
            for _ in 0..<20 { output.append(reply) }
            return talker.inputs.count < 10
                ? ReceiveProgress(consumed: 0, next: .drain)
                : ReceiveProgress(consumed: input.count, next: .close)
        }
        let (server, client) = try pair.open()
        client.send([1])
        pair.pass(1_000)
        #expect(client.heard.count == 200_000)
        #expect(client.heard.prefix(1_000) == reply[...])
        #expect(client.isClosed && server.isClosed)
    }

    @Test func connectWithoutAListenerIsRefusedAndWithoutPowerTimesOut() throws {
        let pair = Pair()
        pair.connect()
        pair.pass()
        #expect(pair.failures == [.refused])
        pair.hosts[0].cutPower()
        pair.connect()
        pair.pass(9_000)
        #expect(pair.failures == [.refused])
        pair.pass(2_000)
        #expect(pair.failures == [.refused, .other])
        pair.environments[0] = pair.hosts[0].start()
        try pair.listen()
        pair.world.apply(.hangConnects("10.0.0.1"))
        pair.connect()
        pair.pass(11_000)
        #expect(pair.failures == [.refused, .other, .other])
        pair.world.apply(.healNetwork)
        #expect(try !pair.open().client.isClosed)
    }

    @Test func crashClosesConnectionsAndPowerLossDoesNot() throws {
        let pair = Pair()
        try pair.listen()
        let first = try pair.open()
        pair.hosts[0].crash()
        pair.pass()
        #expect(first.client.isClosed && !first.server.isClosed)
        pair.environments[0] = pair.hosts[0].start()
        try pair.listen()
        let second = try pair.open()
        pair.hosts[0].cutPower()
        pair.pass(60_000)
        #expect(!second.client.isClosed)
        pair.environments[0] = pair.hosts[0].start()
        second.client.send([1])
        pair.pass()
        #expect(second.client.isClosed)
    }

    /// The process ended at a disk operation, but the calling code runs to its end (seed 1580).
    @Test func lanesOfEndedProcessRunNoWork() {
        let pair = Pair()
        let network = pair.environments[0].network
        pair.hosts[0].crash()
        let hasRun = Guarded(false)
        network.lane(ofReactor: 0).post { hasRun.withLock { $0 = true } }
        network.lane(ofReactor: 0).post(after: 1_000) { hasRun.withLock { $0 = true } }
        pair.pass(1_000)
        #expect(!hasRun.withLock { $0 })
    }

    @Test func splitDelaysButLosesNothing() throws {
        let pair = Pair()
        try pair.listen()
        let (server, client) = try pair.open()
        pair.world.apply(.split([["10.0.0.1"], ["10.0.0.2"]]))
        client.send([1, 2, 3])
        pair.pass(3_000)
        client.send([4])
        pair.pass(1_000)
        #expect(server.heard.isEmpty)
        pair.world.apply(.healNetwork)
        pair.pass(1_000)
        client.send([5])
        pair.pass()
        #expect(server.heard == [1, 2, 3, 4, 5])
    }

    @Test func oneDirectionCanBeCut() throws {
        let pair = Pair()
        try pair.listen()
        let (server, client) = try pair.open()
        pair.world.apply(.oneWay(from: "10.0.0.1", to: "10.0.0.2"))
        client.send([1])
        server.send([2])
        pair.pass(1_000)
        #expect(server.heard == [1])
        #expect(client.heard.isEmpty)
    }

    @Test func cutConnectionIsResetAtBothEnds() throws {
        let pair = Pair()
        try pair.listen()
        let (server, client) = try pair.open()
        pair.world.apply(.cutConnections("10.0.0.1", "10.0.0.2"))
        pair.pass()
        #expect(server.isClosed && client.isClosed)
    }

    @Test func closedListenerClosesItsConnections() throws {
        let pair = Pair()
        try pair.listen()
        let (server, client) = try pair.open()
        #expect(throws: NetworkError.self) { try pair.listen() }
        pair.listener?.close()
        #expect(server.isClosed)
        pair.pass()
        #expect(client.isClosed)
        pair.connect()
        pair.pass()
        #expect(pair.failures == [.refused])
    }

    @Test func readerThatReadsNothingIsClosed() throws {
        let pair = Pair()
        let flood = bytes(2 << 20)
        try pair.listen { _, input, output in
            if input.count > 0 { output.append(flood) }
            return ReceiveProgress(consumed: input.count, next: .receive)
        }
        // Sends its bytes and reads nothing.
        pair.connect { talker, input, output in
            output.append(talker.outbox)
            talker.outbox = []
            return ReceiveProgress(consumed: 0, next: input.count > 0 ? .pause : .receive)
        }
        pair.pass()
        let (server, client) = (try #require(pair.server), try #require(pair.client))
        client.send([1])
        pair.pass(29_000)
        #expect(!server.isClosed)
        pair.pass(2_000)
        #expect(server.isClosed && client.isClosed)
    }

    /// Frames of 20 MiB: three fit the memory for clients, and the fourth waits until their senders
    /// are closed for making no progress.
    @Test func stalledLargeFramesAreBoundedAndClosedAsOnLinux() throws {
        let pair = Pair()
        let frameBytes = 20 << 20
        try pair.listen { talker, input, output in
            guard input.count >= frameBytes else {
                return ReceiveProgress(consumed: 0, next: .receive, needed: frameBytes)
            }
            talker.inputs.append([])
            output.append([1])
            return ReceiveProgress(consumed: frameBytes, next: .receive)
        }
        for _ in 0..<4 { pair.connect() }
        pair.pass()
        let (servers, clients) = (pair.allServers, pair.allClients)
        try #require(servers.count == 4 && clients.count == 4)
        let memory = pair.environments[0].network.memory
        let part = [UInt8](repeating: 1, count: frameBytes - 1)
        for client in clients.prefix(3) { client.send(part) }
        pair.pass(10_000)
        #expect(memory.usage.waitingCount == 0)
        clients[3].send(part)
        pair.pass(15_000)
        #expect(memory.usage.waitingCount == 1)
        #expect(memory.usage.receivedBytes <= memory.usage.receiveBytesMax)
        #expect(!servers.contains { $0.isClosed })
        pair.pass(15_000)
        #expect(servers.filter(\.isClosed).count == 3)
        #expect(memory.usage.waitingCount == 0)
        clients[3].send([1])
        pair.pass(1_000)
        #expect(clients[3].heard == [1])
        #expect(memory.usage.receivedBytes == 0)
    }

    @Test func connectionsSpreadOverTheReactors() throws {
        let pair = Pair()
        try pair.listen()
        for _ in 0..<4 { pair.connect() }
        pair.pass()
        #expect(pair.serverCount == 4)
        #expect(pair.server?.port.reactor == 1)
    }
}
