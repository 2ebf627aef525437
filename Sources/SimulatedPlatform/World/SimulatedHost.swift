package import Bytes
package import Seams

/// A machine: an address, a disk, clocks and a random source; runs at most one process at a time.
///
/// The disk's content survives the process; a power cut may drop unsynced writes, as on a real
/// disk.
package final class SimulatedHost: @unchecked Sendable {  // tidy:allow one thread
    package let address: String
    /// Counts hosts from 0, in the order in which they were added.
    package let number: Int
    package let clock: SimulatedClock
    package let disk: SimulatedDisk
    package let reactorCount: Int
    /// Called when the process died at the disk operation scheduled by a fault.
    package var onDeath: (() -> Void)?
    /// Called when the process is stopped in the middle of a turn.
    package var onStopInTurn: (() -> Void)?
    /// Called after the process continues, with the output of the interrupted turn per connection.
    package var onDeferredOutput: ((ByteView) -> Void)?
    /// Whether connection attempts time out.
    package internal(set) var hangsConnects = false
    /// Whether connection attempts are refused.
    package internal(set) var refusesConnects = false
    /// Without power the host does not answer; without a process its kernel refuses connections.
    package private(set) var hasPower = true
    private(set) var process: SimulatedProcess?
    private let entropy: SimulatedEntropy
    private let shared: Shared
    private var starts = 0

    /// The components that all hosts of a world share.
    private struct Shared {
        let queue: RunQueue
        let network: PacketSimulator
        let programs: ProgramSimulator
        let transcript: Transcript
    }

    init(_ address: String, number: Int, reactors: Int, world: SimulatedWorld) {
        self.address = address
        self.number = number
        reactorCount = reactors
        shared = Shared(
            queue: world.queue,
            network: world.network,
            programs: world.programs,
            transcript: world.transcript
        )
        var dice = world.random(for: "host \(address)")
        let uptime = 1_000_000_000 + dice.next() % 1_000_000_000_000
        clock = SimulatedClock(time: shared.queue.time, uptime: uptime)
        entropy = SimulatedEntropy(seed: dice.next())
        disk = SimulatedDisk(seed: dice.next(), queue: shared.queue, clock: clock)
        disk.cut = { [weak self] isPower in self?.cutAtDisk(isPower: isPower) }
    }

    /// Whether a process runs on the host; true also while it is stopped.
    package var isRunning: Bool { process != nil }

    /// Whether the process is stopped by `freeze` or `stopInTurn`.
    package var isFrozen: Bool { process?.isFrozen ?? false }

    /// Starts a process; no other may run on the host.
    ///
    /// - Parameter threshold: Trace events below this severity are not logged in the transcript.
    /// - Returns: The process's environment.
    package func start(tracing threshold: Severity = .info) -> Environment {
        shared.queue.checkThread()
        require(process == nil, "\(address) already runs a process")
        if !hasPower { clock.reboot() }
        hasPower = true
        starts += 1
        let process = SimulatedProcess(host: self, queue: shared.queue, number: starts)
        self.process = process
        shared.transcript.append(host: address, .started(starts))
        var environment = Environment(
            time: ProcessTime(process: process, clock: clock),
            entropy: entropy,
            network: SimulatedNetwork(process: process, simulator: shared.network),
            disk: disk.mount(),
            lanes: SimulatedLaneFactory(process: process),
            trace: TranscriptTrace(
                process: process,
                transcript: shared.transcript,
                threshold: threshold
            ),
            children: SimulatedChildren(process: process, simulator: shared.programs)
        )
        environment.security = ClearTextSecurity()
        return environment
    }

    /// Kills the process (SIGKILL).
    package func crash() { end(.crashed) }

    /// Cuts the power: each unsynced write is kept or dropped at random.
    package func cutPower() { end(.lostPower) }

    /// Ends the process normally; open files, ports and connections are closed.
    package func exit() { end(.exited) }

    /// Closes the process's ports and connections while its lanes keep running.
    ///
    /// Must not be called on a reactor.
    package func leaveNetwork() {
        shared.queue.checkThread()
        process?.leaveNetwork()
    }

    /// SIGSTOP.
    package func freeze() { process?.freeze() }

    /// SIGCONT.
    package func thaw() { process?.thaw() }

    /// Stops the process (SIGSTOP) in the middle of the `turns`-th reactor turn from now that reads
    /// the clock, and continues it after `nanoseconds`.
    package func stopInTurn(after turns: Int, for nanoseconds: UInt64) {
        process?.pendingStop = PendingStop(turns: turns, nanoseconds: nanoseconds)
    }

    /// Adds this time to each work item of the lanes whose names have the prefix; 0 ends it.
    package func drag(lanes prefix: String, by nanoseconds: UInt64) {
        process?.drag(prefix, by: nanoseconds)
    }

    /// Adds this time to every disk operation.
    ///
    /// If the time is less than before, the running work items end earlier.
    func slowDisk(by nanoseconds: UInt64) {
        let before = disk.slowness
        disk.slowness = nanoseconds
        process?.changeDiskSlowness(to: nanoseconds, from: before)
    }

    private func cutAtDisk(isPower: Bool) {
        end(isPower ? .lostPower : .crashed)
        onDeath?()
    }

    private func end(_ event: Transcript.Event) {
        shared.queue.checkThread()
        let isPower = event == .lostPower
        guard let ended = process else {
            if isPower { hasPower = false }
            return
        }
        process = nil
        hasPower = !isPower
        shared.transcript.append(host: address, event)
        ended.die(isSilent: isPower)
        shared.programs.endChildren(of: ended)
        disk.unmount(isPower: isPower)
    }

    /// Breaks the reference cycles at the world's end.
    func dismantle() {
        onDeath = nil
        onStopInTurn = nil
        onDeferredOutput = nil
        process?.die(isSilent: true)
        process = nil
        disk.dismantle()
    }
}

/// The random source of one host: a generator from the seed.
final class SimulatedEntropy: Entropy, @unchecked Sendable {  // tidy:allow one thread
    private var random: SeededRandom

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
    }

    func next() -> UInt64 { random.next() }
}
