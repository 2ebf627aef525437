import Bytes
import ClusterService
import Seams
import SimulatedPlatform
import Testing
import Vocabulary
import Wire

/// Links of three nodes: streams of all sizes, a service that floods, and one that does not read, while
/// the network cuts, blocks and delays connections.
@Suite struct LinkStormTests {
    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func streamsAndCallsSurviveTheNetworkOfEverySeed(seed: UInt64) {
        let storm = LinkStorm(seed: seed)
        storm.start()
        // No fault yet: a flood and a silent reader delay no other stream.
        storm.world.run(for: 3_000_000_000)
        #expect(storm.calls.failed == 0 && storm.calls.answered > 100, "\(storm.calls)")
        #expect(storm.ledger.complete > 10, "\(storm.ledger)")
        storm.disturb(for: 12_000_000_000)
        storm.heal()
        storm.world.run(for: 15_000_000_000)
        let before = storm.calls
        storm.world.run(for: 2_000_000_000)
        let calls = storm.calls
        #expect(calls.failed == before.failed && calls.answered > before.answered, "\(calls)")
        storm.stopTalking()
        storm.world.run(for: 20_000_000_000)
        #expect(storm.ledger.flaws == [])
        #expect(storm.ledger.halfOpen == 0)
        #expect(storm.calls.made == storm.calls.answered + storm.calls.failed)
    }
}

/// What both ends of all streams have seen.
private final class Ledger: CustomStringConvertible, @unchecked Sendable {
    struct Entry {
        let total: Int
        var received = 0
        var isAccepted = false
        var senderEnd: String??
        var receiverEnd: String??
    }

    var entries: [UInt64: Entry] = [:]
    var flaws: [String] = []

    /// Streams of which all messages arrived, and both ends are closed.
    var complete: Int {
        entries.values.count { $0.received == $0.total && $0.receiverEnd == .some(nil) }
    }

    /// Streams with one end that is over and one that is not.
    var halfOpen: Int {
        entries.values.count { ($0.senderEnd == nil) != ($0.receiverEnd == nil) && $0.isAccepted }
    }

    func end(_ number: UInt64, isSender: Bool, _ reason: String?) {
        guard var entry = entries[number] else { return flaws.append("\(number): unknown") }
        if isSender {
            if entry.senderEnd != nil { flaws.append("\(number): the sender ended twice") }
            entry.senderEnd = .some(reason)
        } else {
            if entry.receiverEnd != nil { flaws.append("\(number): the receiver ended twice") }
            if reason == nil, entry.received != entry.total {
                flaws.append("\(number): \(entry.received) of \(entry.total) messages at its end")
            }
            entry.receiverEnd = .some(reason)
        }
        entries[number] = entry
    }

    var description: String { "\(complete) of \(entries.count) complete" }
}

private struct CallCounts {
    var made = 0
    var answered = 0
    var failed = 0
}

/// Sends numbered messages and ends the stream.
private final class NumberedSender: StreamHandler {
    private let number: UInt64
    private let sizes: [Int]
    private let ledger: Ledger
    private var sent = 0

    init(_ number: UInt64, sizes: [Int], _ ledger: Ledger) {
        self.number = number
        self.sizes = sizes
        self.ledger = ledger
    }

    func receive(_ message: ByteView) -> StreamReception { .invalid("a message") }

    func send(_ output: any StreamOutput) -> StreamProgress {
        while output.room > 0, sent < sizes.count {
            output.append { writer in
                writer.append(bigEndian: number)
                writer.append(bigEndian: UInt32(sent))
                writer.append(
                    [UInt8](repeating: UInt8(truncatingIfNeeded: sent), count: sizes[sent])
                )
            }
            sent += 1
        }
        return sent < sizes.count ? .again : .over
    }

    func closed(_ reason: String?) { ledger.end(number, isSender: true, reason) }
}

/// Checks numbered messages; some wait, or are released later.
private final class NumberedReceiver: StreamHandler {
    private let port: any StreamPort
    private let ledger: Ledger
    private let lane: any Lane
    private var dice: SeededRandom
    private var number: UInt64 = 0
    private var received = 0
    private var mustHandle = false

    init(_ port: any StreamPort, _ request: ByteView, _ ledger: Ledger, lane: any Lane) {
        self.port = port
        self.ledger = ledger
        self.lane = lane
        number = request.bigEndian(at: 0, as: UInt64.self)
        dice = SeededRandom(seed: number)
        ledger.entries[number]?.isAccepted = true
    }

    func receive(_ message: ByteView) -> StreamReception {
        let choice = dice.next() % 8
        if choice == 0, !mustHandle {
            mustHandle = true
            lane.post(after: dice.next() % 50_000_000) { [port] in port.wake() }
            return .paused
        }
        mustHandle = false
        let index = Int(message.bigEndian(at: 8, as: UInt32.self))
        let isWhole = message.dropFirst(12).buffer.allSatisfy {
            $0 == UInt8(truncatingIfNeeded: index)
        }
        if message.bigEndian(at: 0, as: UInt64.self) != number || index != received || !isWhole {
            ledger.flaws.append("\(number): message \(index) instead of \(received)")
        }
        received += 1
        ledger.entries[number]?.received = received
        guard choice == 1 else { return .handled }
        lane.post(after: dice.next() % 50_000_000) { [port, count = message.count] in
            port.release(count)
        }
        return .kept
    }

    func send(_ output: any StreamOutput) -> StreamProgress { .asleep }
    func closed(_ reason: String?) { ledger.end(number, isSender: false, reason) }
}

/// Sends as much as it may.
private final class Flood: StreamHandler {
    private var bytesLeft = 16 << 20

    func receive(_ message: ByteView) -> StreamReception { .handled }

    func send(_ output: any StreamOutput) -> StreamProgress {
        let count = min(output.room, bytesLeft)
        guard count > 0 else { return .asleep }
        bytesLeft -= count
        output.append { $0.append([UInt8](repeating: 7, count: count)) }
        return .again
    }

    func closed(_ reason: String?) {}
}

/// Reads everything, or nothing.
private final class Reader: StreamHandler {
    private let reads: Bool

    init(reads: Bool) { self.reads = reads }

    func receive(_ message: ByteView) -> StreamReception { reads ? .handled : .paused }
    func send(_ output: any StreamOutput) -> StreamProgress { .asleep }
    func closed(_ reason: String?) {}
}

private final class LinkStorm: @unchecked Sendable {
    private struct Node {
        let host: SimulatedHost
        let number: NodeNumber
        let transport: PeerTransport
        let calls: PeerCalls
        let lane: any Lane
    }

    private static let millisecond: UInt64 = 1_000_000
    private static let port: UInt16 = 9_100

    let world: SimulatedWorld
    let ledger = Ledger()
    private(set) var calls = CallCounts()
    private var nodes: [Node] = []
    private var dice: SeededRandom
    private var streams: UInt64 = 0
    private var isTalking = true

    init(seed: UInt64) {
        world = SimulatedWorld(seed: seed)
        dice = world.random(for: "link storm")
    }

    private static func keys(_ number: UInt16) -> KeyPair {
        KeyPair(
            publicKey: [UInt8](repeating: UInt8(number), count: KeyPair.byteCount),
            privateKey: [UInt8](repeating: UInt8(number) + 100, count: KeyPair.byteCount)
        )
    }

    func start() {
        let addresses = (1...3).map { "10.0.0.\($0)" }
        var directory = PeerDirectory()
        for (index, host) in addresses.enumerated() {
            let number = UInt16(index + 1)
            directory.nodes[NodeNumber(number)] = PeerAddress(
                host: host,
                port: LinkStorm.port,
                key: LinkStorm.keys(number).publicKey
            )
        }
        for (index, address) in addresses.enumerated() {
            let host = world.addHost(address, reactors: 2)
            let environment = host.start(tracing: .error)
            let transport = PeerTransport(environment: environment)
            let lane = environment.lanes.makeLane("control")
            let calls = PeerCalls(over: transport, lane: lane)
            let number = UInt16(index + 1)
            calls.handleCalls(1) { _, payload, answer in answer(payload) }
            let ledger = ledger
            transport.serve(.views) { port, request in
                NumberedReceiver(port, request, ledger, lane: lane)
            }
            transport.serve(.copies) { _, _ in Reader(reads: true) }
            transport.serve(.feeds) { _, _ in Reader(reads: false) }
            let claim = PeerClaim(
                node: NodeNumber(number),
                nodeUUID: "node-\(number)",
                clusterUUID: "cluster",
                group: 1,
                epoch: 1
            )
            lane.post { [directory] in
                calls.setIdentity(PeerIdentityProof(claim: claim, keys: LinkStorm.keys(number)))
                calls.setDirectory(directory)
            }
            do throws(NetworkError) {
                _ = try transport.listen(on: SocketAddress(host: address, port: LinkStorm.port))
            } catch {
                Issue.record("\(error)")
            }
            nodes.append(
                Node(
                    host: host,
                    number: NodeNumber(number),
                    transport: transport,
                    calls: calls,
                    lane: lane
                )
            )
        }
        // Until the first connections are open, calls may be refused.
        world.run(for: 2_000 * LinkStorm.millisecond)
        for node in nodes {
            for other in nodes where other.number != node.number {
                open(.copies, from: node, to: other.number) { Flood() }
                open(.feeds, from: node, to: other.number) { Flood() }
            }
            talk(node)
        }
    }

    private func open(
        _ service: NodeService,
        from node: Node,
        to number: NodeNumber,
        _ make: @escaping @Sendable () -> any StreamHandler
    ) {
        node.transport.open(
            service,
            to: number,
            request: [],
            opened: { _ in make() },
            failed: { _ in }
        )
    }

    /// Makes calls and streams to the other nodes, again and again.
    private func talk(_ node: Node) {
        world.after((20 + dice.next() % 60) * LinkStorm.millisecond) { [weak self] in
            guard let self, isTalking else { return }
            for other in nodes where other.number != node.number {
                call(node, other.number)
                if dice.next() % 3 == 0 { talk(node, to: other.number) }
            }
            talk(node)
        }
    }

    private func call(_ node: Node, _ other: NodeNumber) {
        let size = dice.next() % 10 == 0 ? Int(dice.next() % 400_000) : Int(dice.next() % 100)
        let payload = [UInt8](repeating: UInt8(size % 251), count: size)
        calls.made += 1
        node.lane.post { [self] in
            node.calls.call(1, payload, to: other, timeoutNanoseconds: 1_000_000_000) { result in
                switch result {
                case .success(let answer):
                    if answer != payload { self.ledger.flaws.append("an answer of another call") }
                    self.calls.answered += 1
                case .failure: self.calls.failed += 1
                }
            }
        }
    }

    private func talk(_ node: Node, to other: NodeNumber) {
        streams += 1
        let number = streams
        let count = Int(dice.next() % 20)
        let sizes = (0..<count).map { _ in
            Int(dice.next() % (dice.next() % 8 == 0 ? 300_000 : 2_000))
        }
        ledger.entries[number] = Ledger.Entry(total: count)
        let writer = ByteWriter()
        writer.append(bigEndian: number)
        let ledger = ledger
        node.transport.open(
            .views,
            to: other,
            request: writer.bytes,
            opened: { _ in NumberedSender(number, sizes: sizes, ledger) },
            failed: { _ in ledger.entries[number] = nil }
        )
    }

    func stopTalking() { isTalking = false }

    /// Faults of the network, some at random bytes of the streams.
    func disturb(for nanoseconds: UInt64) {
        let end = world.now + nanoseconds
        while world.now < end {
            let hosts = nodes.map(\.host.address)
            let one = hosts[Int(dice.next() % 3)]
            let other = hosts.filter { $0 != one }[Int(dice.next() % 2)]
            switch dice.next() % 6 {
            case 0, 1: world.apply(.cutConnections(one, other))
            case 2: world.apply(.split([[one], hosts.filter { $0 != one }]))
            case 3: world.apply(.oneWay(from: one, to: other))
            case 4: world.apply(.clog(from: one, to: other, nanoseconds: 700_000_000))
            default: world.apply(.healNetwork)
            }
            world.run(for: dice.next() % 1_500_000_000)
        }
    }

    func heal() { world.apply(.healNetwork) }
}
