import Bytes
import SimulatedPlatform

/// Draws and applies a fault about every second, and ends lasting faults after a while.
final class Chaos: @unchecked Sendable {
    enum Kind: String, CaseIterable {
        case crash, powerCut, crashAtDisk, powerCutAtDisk, cleanStop
        case diskFull, diskSlow, diskError
        case freeze, slowLane, clockJump, clockRate
        case cutConnections, oneWay, clog, slow
    }

    private let world: SimulatedWorld
    private let node: NodeDriver
    private let client: String
    private var random: SeededRandom
    private var kinds: [Kind] = []
    private var ends: UInt64 = 0
    private var isOver = false
    private(set) var counts: [String: Int] = [:]

    init(
        world: SimulatedWorld,
        node: NodeDriver,
        clientAddress: String,
        without excluded: Set<String>
    ) {
        self.world = world
        self.node = node
        client = clientAddress
        random = world.random(for: "chaos")
        for kind in Kind.allCases {
            // Each kind is on in one seed of three. Power cuts in a commit are on in two of three:
            // lost writes are the main subject.
            let isOn = random.next() % 3 == 0 || kind == .powerCutAtDisk && random.next() % 2 == 0
            if isOn, !excluded.contains(kind.rawValue) { kinds.append(kind) }
        }
    }

    func start(for nanoseconds: UInt64) {
        ends = world.now + nanoseconds
        scheduleNext()
    }

    private func scheduleNext() {
        guard !kinds.isEmpty else { return }
        world.after(200_000_000 + random.next() % 1_800_000_000) { [weak self] in
            guard let self, !isOver, world.now < ends else { return }
            let kind = kinds[Int(random.next() % UInt64(kinds.count))]
            counts[kind.rawValue, default: 0] += 1
            apply(kind)
            scheduleNext()
        }
    }

    /// Ends all faults and restarts the node if it is down.
    func end() {
        isOver = true
        let address = NodeDriver.address
        world.apply(.healNetwork)
        world.apply(.diskFull(address, false))
        world.apply(.diskSlow(address, nanoseconds: 0))
        world.apply(.diskError(address, perMille: 0))
        world.apply(.thaw(address))
        world.apply(.slowLane(address, lanes: "", nanoseconds: 0))
        world.apply(.clockRate(address, millionths: 0))
        if !node.host.isRunning { node.startLater() }
    }

    private func apply(_ kind: Kind) {
        let address = NodeDriver.address
        let length = 100_000_000 + random.next() % 2_000_000_000
        switch kind {
        case .crash: node.crash { _ in world.apply(.crash(address)) }
        case .powerCut: node.crash { _ in world.apply(.powerCut(address)) }
        case .crashAtDisk:
            world.apply(.crashAtDisk(address, operations: 1 + Int(random.next() % 200)))
        case .powerCutAtDisk:
            world.apply(.powerCutAtDisk(address, operations: 1 + Int(random.next() % 200)))
        case .cleanStop: node.stop { [weak self] in self?.node.startLater() }
        case .diskFull: apply(for: length, .diskFull(address, true), .diskFull(address, false))
        case .diskSlow:
            let slowness = random.next() % 30_000_000
            apply(
                for: length,
                .diskSlow(address, nanoseconds: slowness),
                .diskSlow(address, nanoseconds: 0)
            )
        case .diskError:
            let rate = 1 + Int(random.next() % 100)
            apply(
                for: length,
                .diskError(address, perMille: rate),
                .diskError(address, perMille: 0)
            )
        default: applyToProcessOrNetwork(kind, length)
        }
    }

    private func applyToProcessOrNetwork(_ kind: Kind, _ length: UInt64) {
        let address = NodeDriver.address
        switch kind {
        case .freeze: apply(for: length, .freeze(address), .thaw(address))
        case .slowLane:
            let lane = ["writer", "reader", "reactor", "non-io"][Int(random.next() % 4)]
            let drag = random.next() % 20_000_000
            apply(
                for: length,
                .slowLane(address, lanes: lane, nanoseconds: drag),
                .slowLane(address, lanes: lane, nanoseconds: 0)
            )
        case .clockJump:
            let jump = Int64(random.next() % 7_200_000_000_000) - 3_600_000_000_000
            world.apply(.clockJump(address, nanoseconds: jump))
        case .clockRate:
            let drift = Int64(random.next() % 20_000) - 10_000
            world.apply(.clockRate(address, millionths: drift))
        case .cutConnections: world.apply(.cutConnections(address, client))
        case .oneWay:
            let isOut = random.next() & 1 == 0
            apply(
                for: length,
                .oneWay(from: isOut ? address : client, to: isOut ? client : address),
                .healNetwork
            )
        case .clog:
            world.apply(.clog(from: client, to: address, nanoseconds: length))
        case .slow:
            let fault = Fault.slow(from: address, to: client, nanoseconds: length / 8)
            apply(for: length, fault, .healNetwork)
        default: preconditionFailure("`apply` handles this kind")
        }
    }

    /// Applies a fault now, and after `nanoseconds` the fault that ends it.
    private func apply(for nanoseconds: UInt64, _ fault: Fault, _ cure: Fault) {
        world.apply(fault)
        world.after(nanoseconds) { [weak self] in
            guard let self, !isOver else { return }
            world.apply(cure)
        }
    }
}
