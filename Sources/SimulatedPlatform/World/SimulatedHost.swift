package import Bytes
package import Seams

/// A machine: an address, a disk, clocks and dice; programs are started and die on it.
///
/// What is on the disk survives them, as far as a real disk's content would.
package final class SimulatedHost: @unchecked Sendable {  // tidy:allow one thread
    package let address: String
    /// Counts hosts from 0, in the order they were added.
    package let number: Int
    package let clock: SimulatedClock
    package let disk: SimulatedDisk
    package let reactorCount: Int
    /// Told when the process died by itself, at the disk operation that was named before.
    package var died: (() -> Void)?
    /// Told when a turn begins to stand still in which the process was stopped.
    package var stoppedInTurn: (() -> Void)?
    /// Told what such a turn says once it goes on, of each connection.
    package var saidLate: ((ByteView) -> Void)?
    /// Cables pulled: neither refused nor answered.
    package internal(set) var hangsConnects = false
    package internal(set) var refusesConnects = false
    /// Without power nobody answers; without a process the kernel does.
    package private(set) var hasPower = true
    private(set) var process: SimulatedProcess?
    private let entropy: SimulatedEntropy
    private let queue: RunQueue
    private let network: PacketSimulator
    private let transcript: Transcript
    private var starts = 0

    init(_ address: String, number: Int, reactors: Int, world: SimulatedWorld) {
        self.address = address
        self.number = number
        reactorCount = reactors
        queue = world.queue
        network = world.network
        transcript = world.transcript
        var dice = world.dice("host \(address)")
        let uptime = 1_000_000_000 + dice.next() % 1_000_000_000_000
        clock = SimulatedClock(time: queue.time, uptime: uptime)
        entropy = SimulatedEntropy(seed: dice.next())
        disk = SimulatedDisk(seed: dice.next(), queue: queue, clock: clock)
        disk.cut = { [weak self] isPower in self?.cutAtDisk(isPower: isPower) }
    }

    package var isRunning: Bool { process != nil }

    package var isFrozen: Bool { process?.isFrozen ?? false }

    /// Starts a program; the host must have none.
    ///
    /// - Parameter threshold: Events below this do not go into the transcript.
    /// - Returns: The world as the program sees it.
    package func start(tracing threshold: Severity = .info) -> Environment {
        queue.checkThread()
        require(process == nil, "\(address) runs a program already")
        if !hasPower { clock.reboot() }
        hasPower = true
        starts += 1
        let process = SimulatedProcess(host: self, queue: queue, number: starts)
        self.process = process
        transcript.append(host: address, .started(starts))
        return Environment(
            time: ProcessTime(process: process, clock: clock),
            entropy: entropy,
            network: SimulatedNetwork(process: process, simulator: network),
            disk: disk.mount(),
            lanes: SimulatedLanes(process: process),
            trace: TranscriptTrace(process: process, transcript: transcript, threshold: threshold)
        )
    }

    /// `kill -9`, and also what is left of a program that ended by itself.
    package func crash() { end(.crashed) }

    /// Power goes: of what was not synced, each write is there or not.
    package func cutPower() { end(.lostPower) }

    /// The program ended in good order: it closed its files and ports, or that is done for it.
    package func exit() { end(.exited) }

    /// The program closes its ports and connections, and has work to do yet; not from a reactor.
    package func leaveNetwork() {
        queue.checkThread()
        process?.leaveNetwork()
    }

    /// SIGSTOP.
    package func freeze() { process?.freeze() }

    /// SIGCONT.
    package func thaw() { process?.thaw() }

    /// SIGSTOP in the middle of the so-manieth turn of a reactor from now that looks at the clock.
    package func stopInTurn(after turns: Int, for nanoseconds: UInt64) {
        process?.pendingStop = PendingStop(turns: turns, nanoseconds: nanoseconds)
    }

    /// Every piece of work on lanes with such a name takes longer.
    package func drag(lanes prefix: String, by nanoseconds: UInt64) {
        process?.drag(prefix, by: nanoseconds)
    }

    /// Every operation of the disk takes longer by so much, those under way too if it was more.
    func slowDisk(by nanoseconds: UInt64) {
        let before = disk.slowness
        disk.slowness = nanoseconds
        process?.diskBecame(nanoseconds, insteadOf: before)
    }

    private func cutAtDisk(isPower: Bool) {
        end(isPower ? .lostPower : .crashed)
        died?()
    }

    private func end(_ event: Transcript.Event) {
        queue.checkThread()
        let isPower = event == .lostPower
        guard let ended = process else {
            if isPower { hasPower = false }
            return
        }
        process = nil
        hasPower = !isPower
        transcript.append(host: address, event)
        ended.die(isSilent: isPower)
        disk.unmount(isPower: isPower)
    }

    /// Breaks the circles of the world's end.
    func dismantle() {
        died = nil
        stoppedInTurn = nil
        saidLate = nil
        process?.die(isSilent: true)
        process = nil
        disk.dismantle()
    }
}

/// The dice of one host: a generator from the seed.
final class SimulatedEntropy: Entropy, @unchecked Sendable {  // tidy:allow one thread
    private var random: SeededRandom

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
    }

    func next() -> UInt64 { random.next() }
}
