internal import Bytes
internal import SimulatedPlatform

/// Faults of the network, of disks and of clocks.
extension Chaos {
    func beginOnNetwork(_ kind: Kind, _ node: SimulatedNode) {
        let all = cluster.nodes.map(\.address)
        let length = 200_000_000 + random.next() % 8_000_000_000
        let others = all.filter { $0 != node.address }
        let other = others.isEmpty ? "10.0.1.1" : others[Int(random.next() % UInt64(others.count))]
        switch kind {
        case .split:
            var minority = [node.address]
            if all.count > 4, random.next() & 1 == 0 { minority.append(other) }
            let majority = all.filter { !minority.contains($0) }
            last(length, .split([minority, majority]), end: .healNetwork)
        case .oneWay:
            let isOut = random.next() & 1 == 0
            last(
                length,
                .oneWay(from: isOut ? node.address : other, to: isOut ? other : node.address),
                end: .healNetwork
            )
        case .clog:
            let clog = random.next() % 3_000_000_000
            cluster.world.apply(.clog(from: node.address, to: other, nanoseconds: clog))
        case .slow:
            let delay = random.next() % 60_000_000
            last(
                length,
                .slow(from: node.address, to: other, nanoseconds: delay),
                end: .slow(from: node.address, to: other, nanoseconds: 0)
            )
        default:
            let peer = random.next() % 3 == 0 ? "10.0.1.1" : other
            cluster.world.apply(.cutConnections(node.address, peer))
        }
    }

    func beginOnMachine(_ kind: Kind, _ node: SimulatedNode) {
        let address = node.address
        let length = 100_000_000 + random.next() % 6_000_000_000
        switch kind {
        case .freeze: last(length, .freeze(address), end: .thaw(address))
        case .slowLane:
            let lane = ["writer", "reader", "reactor", "control"][Int(random.next() % 4)]
            let drag = random.next() % 5_000_000
            last(
                length,
                .slowLane(address, lanes: lane, nanoseconds: drag),
                end: .slowLane(address, lanes: lane, nanoseconds: 0)
            )
        case .clockJump:
            let jump = Int64(random.next() % 7_200_000_000_000) - 3_600_000_000_000
            cluster.world.apply(.clockJump(address, nanoseconds: jump))
        case .clockRate:
            let drift = Int64(random.next() % 20_000) - 10_000
            cluster.world.apply(.clockRate(address, millionths: drift))
        case .clockFreeze:
            // A suspended machine whose clock does not count the suspension.
            last(
                length,
                [.clockFreeze(address), .freeze(address)],
                end: [.thaw(address), .clockRate(address, millionths: 0)]
            )
        default: beginOnDisk(kind, node, lasting: length)
        }
    }

    private func beginOnDisk(_ kind: Kind, _ node: SimulatedNode, lasting length: UInt64) {
        let address = node.address
        switch kind {
        case .diskSlow:
            let slowness = random.next() % 30_000_000
            last(
                length,
                .diskSlow(address, nanoseconds: slowness),
                end: .diskSlow(address, nanoseconds: 0)
            )
        case .diskFull: last(length, .diskFull(address, true), end: .diskFull(address, false))
        default:
            let perMille = 1 + Int(random.next() % 100)
            recordDiskError(node)
            failing.append(node)
            last(
                length,
                [.diskError(address, perMille: perMille)],
                end: [.diskError(address, perMille: 0)]
            ) { [weak self] in
                // A process that started meanwhile has read from the failing disk too.
                self?.recordDiskError(node)
                self?.failing.removeAll { $0 === node }
            }
        }
    }

    private func recordDiskError(_ node: SimulatedNode) {
        sick.removeAll { $0.node === node }
        sick.append((node, node.restarts))
    }
}
