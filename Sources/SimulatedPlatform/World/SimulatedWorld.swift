package import Bytes
internal import CSQLite

/// A world from a seed: hosts, the network between them, and time, all on the caller's thread.
///
///     let world = SimulatedWorld(seed: 4711)
///     let host = world.addHost("10.0.0.1")
///     let node = try Node(settings, environment: host.start(), version: version)
///     world.run(for: 60_000_000_000)
///     host.cutPower()
///
/// - The seed decides everything: two worlds driven alike have equal transcripts.
/// - SQLite has dice of its own, one set for the whole process. A new world loads them, so worlds
///   that use databases are to be run one after the other.
package final class SimulatedWorld {
    package let seed: UInt64
    package let network: PacketSimulator
    package let transcript: Transcript
    package private(set) var hosts: [SimulatedHost] = []
    let queue: RunQueue

    package init(seed: UInt64) {
        self.seed = seed
        queue = RunQueue(seed: seed)
        transcript = Transcript(queue: queue)
        var dice = SimulatedWorld.dice(seed, "world")
        network = PacketSimulator(seed: dice.next(), queue: queue)
        SimulatedVFS.loadDice(seed: dice.next())
    }

    deinit {
        for host in hosts { host.dismantle() }
        network.dismantle()
        queue.clear()
    }

    /// Dice for a purpose: drawing from them changes nothing for the others.
    package func dice(_ purpose: String) -> SeededRandom { SimulatedWorld.dice(seed, purpose) }

    private static func dice(_ seed: UInt64, _ purpose: String) -> SeededRandom {
        var mixed = seed ^ 0x5bd1_e995_9d1b_58e7
        for byte in purpose.utf8 { mixed = (mixed ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        return SeededRandom(seed: mixed)
    }

    /// Adds a machine.
    ///
    /// - Parameters:
    ///   - address: Its IP address in digits, by which others connect to it.
    ///   - reactors: How many reactors serve the connections of its programs.
    /// - Returns: The machine, with nothing running on it.
    package func addHost(_ address: String, reactors: Int = 1) -> SimulatedHost {
        require(host(address) == nil, "\(address) is another machine's address")
        let host = SimulatedHost(address, number: hosts.count, reactors: reactors, world: self)
        hosts.append(host)
        network.add(host)
        return host
    }

    package func host(_ address: String) -> SimulatedHost? {
        hosts.first { $0.address == address }
    }

    // MARK: Time

    /// Nanoseconds since the world began.
    package var now: UInt64 { queue.time.now }

    /// Pieces of work that ran.
    package var steps: UInt64 { queue.steps }

    /// Has something happen to the world, later.
    package func after(_ nanoseconds: UInt64, _ body: @escaping () -> Void) {
        queue.time.add(at: now + nanoseconds, .happen(body))
    }

    /// Lets time pass.
    package func run(for nanoseconds: UInt64) { _ = run(for: nanoseconds) { false } }

    /// Lets time pass until something is so; whether it was within the time.
    package func run(for nanoseconds: UInt64, until isSo: () -> Bool) -> Bool {
        let end = now + nanoseconds
        while !isSo() {
            guard queue.step(by: end) else {
                queue.time.advance(to: end)
                return isSo()
            }
        }
        return true
    }

    // MARK: What goes wrong

    package func apply(_ fault: Fault) {
        transcript.append(host: "-", .broke(fault))
        switch fault {
        case .split, .oneWay, .clog, .slow, .cutConnections, .refuseConnects, .hangConnects,
            .healNetwork:
            network.apply(fault)
        case .crash(let name): host(name)?.crash()
        case .powerCut(let name): host(name)?.cutPower()
        case .crashAtDisk(let name, let operations):
            host(name)?.disk.cutAfter(operations: operations, isPower: false)
        case .powerCutAtDisk(let name, let operations):
            host(name)?.disk.cutAfter(operations: operations, isPower: true)
        case .freeze(let name): host(name)?.freeze()
        case .thaw(let name): host(name)?.thaw()
        case .stopInTurn(let name, let turns, let nanoseconds):
            host(name)?.stopInTurn(after: turns, for: nanoseconds)
        case .slowLane(let name, let lanes, let nanoseconds):
            host(name)?.drag(lanes: lanes, by: nanoseconds)
        case .diskFull(let name, let isFull): host(name)?.disk.isFull = isFull
        case .diskSlow(let name, let nanoseconds): host(name)?.slowDisk(by: nanoseconds)
        case .diskError(let name, let perMille): host(name)?.disk.errorsPerMille = perMille
        case .flippedByte(let name, let suffix): _ = host(name)?.disk.flipByte(suffix: suffix)
        case .clockJump(let name, let nanoseconds): host(name)?.clock.jump(by: nanoseconds)
        case .clockRate(let name, let millionths): host(name)?.clock.run(drift: millionths)
        case .clockFreeze(let name): host(name)?.clock.freeze()
        }
    }
}
