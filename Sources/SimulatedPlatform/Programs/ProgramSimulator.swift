internal import Bytes
internal import Seams

/// All child processes of a world, and the programs that they may run.
///
/// - The seed decides when bytes arrive, in which pieces, and which child a fault affects.
/// - Children end with their process, at once and without a call of a handler.
/// - A world that starts no children draws nothing here.
final class ProgramSimulator {
    typealias Start = (ProgramConsole, [String]) -> any SimulatedProgram

    let queue: RunQueue
    /// By file name.
    var programs: [String: Start] = [:]
    /// Nanoseconds that a fault adds to what the children of a host send, by its address.
    var slowness: [String: UInt64] = [:]
    private var random: SeededRandom
    /// In the order of their starts.
    private var children: [SimulatedChild] = []

    init(seed: UInt64, queue: RunQueue) {
        random = SeededRandom(seed: seed)
        self.queue = queue
    }

    func draw() -> UInt64 { random.next() }

    func add(_ child: SimulatedChild) { children.append(child) }

    func remove(_ child: SimulatedChild) { children.removeAll { $0 === child } }

    /// Ends the children of a process that has ended.
    func endChildren(of process: SimulatedProcess) {
        for child in children where child.process === process { child.parentDied() }
        children.removeAll { $0.process === process }
    }

    /// Ends one child of the host, if it has one: at once, or in the middle of its next output.
    func endChild(of host: String, _ end: ChildEnd, isMidOutput: Bool) {
        let candidates = children.filter { $0.process.host.address == host }
        guard !candidates.isEmpty else { return }
        let child = candidates[Int(draw() % UInt64(candidates.count))]
        if isMidOutput { child.endInNextOutput(end) } else { child.end(end) }
    }

    func dismantle() {
        for child in children { child.parentDied() }
        children = []
        programs = [:]
    }
}

/// The `ChildProcesses` seam of one process.
struct SimulatedChildren: ChildProcesses {
    let process: SimulatedProcess
    nonisolated(unsafe) let simulator: ProgramSimulator  // tidy:allow one thread, checked on entry

    /// Nil: a program that the simulator does not have fails when it is started.
    func obstacle(to name: String, mustFilter: Bool) -> ChildError? { nil }

    func start(
        _ program: ChildProgram,
        on lane: any Lane,
        _ handler: any ChildHandler
    ) -> any ChildProcess {
        simulator.queue.checkThread()
        let child = SimulatedChild(
            program,
            process: process,
            simulator: simulator,
            lane: lane,
            handler
        )
        if !process.isDead { child.start() }
        return child
    }
}
