package import Bytes

/// A simulated world: hosts, the network between them, and time, all on the caller's thread.
///
///     let world = SimulatedWorld(seed: 4711)
///     let host = world.addHost("10.0.0.1")
///     let node = try Node(settings, environment: host.start(), version: version)
///     world.run(for: 60_000_000_000)
///     host.cutPower()
///
/// - The seed decides everything: two worlds with the same seed and the same calls have equal
///   transcripts.
/// - SQLite has one random generator per process. A new world seeds it, so worlds that use databases
///   must run one after the other.
package final class SimulatedWorld {
    package let seed: UInt64
    package let network: PacketSimulator
    package let transcript: Transcript
    /// In the order in which they were added.
    package private(set) var hosts: [SimulatedHost] = []
    let queue: RunQueue
    let programs: ProgramSimulator

    /// Creates an empty world; seeds SQLite's random generator.
    package init(seed: UInt64) {
        self.seed = seed
        queue = RunQueue(seed: seed)
        transcript = Transcript(queue: queue)
        var dice = SimulatedWorld.random(seed, "world")
        network = PacketSimulator(seed: dice.next(), queue: queue)
        SimulatedVFS.seedRandomness(seed: dice.next())
        var childDice = SimulatedWorld.random(seed, "children")
        programs = ProgramSimulator(seed: childDice.next(), queue: queue)
    }

    deinit {
        for host in hosts { host.dismantle() }
        network.dismantle()
        programs.dismantle()
        queue.clear()
    }

    /// A random generator for one purpose; drawing from it does not affect other purposes.
    package func random(for purpose: String) -> SeededRandom {
        SimulatedWorld.random(seed, purpose)
    }

    private static func random(_ seed: UInt64, _ purpose: String) -> SeededRandom {
        var mixed = seed ^ 0x5bd1_e995_9d1b_58e7
        for byte in purpose.utf8 { mixed = (mixed ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        return SeededRandom(seed: mixed)
    }

    /// Adds a machine.
    ///
    /// - Parameters:
    ///   - address: Its numeric IP address.
    ///   - reactors: The number of reactors that serve the connections of its processes.
    /// - Returns: The machine, without a process.
    package func addHost(_ address: String, reactors: Int = 1) -> SimulatedHost {
        require(host(address) == nil, "the address \(address) is in use by another machine")
        let host = SimulatedHost(address, number: hosts.count, reactors: reactors, world: self)
        hosts.append(host)
        network.add(host)
        return host
    }

    /// The machine with this address; nil if there is none.
    package func host(_ address: String) -> SimulatedHost? {
        hosts.first { $0.address == address }
    }

    /// Makes a program known to all hosts, by its file name; `start` begins each of its runs.
    package func install(
        _ name: String,
        _ start: @escaping (ProgramConsole, [String]) -> any SimulatedProgram
    ) {
        programs.programs[name] = start
    }

    // MARK: Time

    /// Nanoseconds since the world began.
    package var now: UInt64 { queue.time.now }

    /// Work items that have run.
    package var steps: UInt64 { queue.steps }

    /// Runs `body` after this many nanoseconds of the world's time.
    package func after(_ nanoseconds: UInt64, _ body: @escaping () -> Void) {
        queue.time.add(at: now + nanoseconds, .happen(body))
    }

    /// Runs the world for this many nanoseconds of its time.
    package func run(for nanoseconds: UInt64) { _ = run(for: nanoseconds) { false } }

    /// Runs the world until `isSo` returns true; false if it did not within this many nanoseconds.
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

    // MARK: Faults

    /// Applies a fault and logs it in the transcript.
    ///
    /// A fault of an unknown host does nothing.
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
        case .endChild(let name, let end, let isMidOutput):
            programs.endChild(of: name, end, isMidOutput: isMidOutput)
        case .slowChildren(let name, let nanoseconds): programs.slowness[name] = nanoseconds
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
