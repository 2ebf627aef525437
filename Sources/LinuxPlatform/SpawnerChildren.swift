internal import Bytes
internal import CLinux
internal import Glibc
package import Seams

/// The process that starts child processes for this one, which is going to be confined.
///
/// A program forks it first, before it has threads or knows anything that is not for its children.
package struct Spawner: Sendable {
    /// The connection to it.
    let socket: Int32
    /// Nil if it is a thread of this process, which tests have.
    let process: Int32?
    let rules: SpawnRules

    /// - Parameters:
    ///   - socket: The other end of the connection of a `SpawnServer`.
    ///   - process: The process of the server, which `SpawnerChildren.stop` reaps.
    ///   - rules: Those of the server.
    package init(socket: Int32, process: Int32? = nil, rules: SpawnRules) {
        self.socket = socket
        self.process = process
        self.rules = rules
    }

    /// Forks the spawner; returns in the calling process only.
    ///
    /// The process must have one thread.
    ///
    /// - Throws: `ChildError` if the system refuses a process or descriptors.
    package static func fork(_ rules: SpawnRules) throws(ChildError) -> Spawner {
        var ends: [Int32] = [-1, -1]
        guard divan_spawn_pair(&ends) == 0 else { throw SystemError.child(errno, "the spawner") }
        let process = divan_fork_spawner(ends[1])
        let code = errno
        if process == 0 {
            var server = SpawnServer(socket: ends[1], rules: rules)
            server.serve()
            divan_end_copy(0)
        }
        close(ends[1])
        guard process > 0 else {
            close(ends[0])
            precondition(code != EDEADLK, "the spawner is forked before the first thread")
            throw SystemError.child(code, "the spawner")
        }
        return Spawner(socket: ends[0], process: process, rules: rules)
    }
}

/// The child processes of a confined program: its spawner starts them, and one thread serves them here.
///
/// - The obstacles are found when this object is made: a confined program cannot look for files.
package final class SpawnerChildren: ChildProcesses {
    private struct State {
        /// Nil after `stop`.
        var loop: Reactor?
        var lastNumber: UInt32 = 0
        var isLost = false
    }

    private let spawner: Spawner
    private let link: SpawnerLink
    private let missing: [String: ChildError]
    private let unfiltered: String?
    private let state: Guarded<State>

    package init(_ spawner: Spawner, trace: any Trace) {
        self.spawner = spawner
        let rules = spawner.rules
        var missing: [String: ChildError] = [:]
        for program in rules.programs where access(rules.path(of: program), X_OK) != 0 {
            missing[program] = SystemError.child(errno, rules.path(of: program))
        }
        self.missing = missing
        unfiltered = Confinement.obstacleToFilter
        var limits = ReactorLimits()
        limits.receiveBytes = LinuxChild.readBytes
        let loop = Reactor(
            index: 0,
            limits: limits,
            quiescence: Quiescence(reactorCount: 1),
            trace: trace,
            name: "children"
        )
        let state = Guarded(State(loop: loop))
        self.state = state
        link = SpawnerLink(socket: spawner.socket, rules: rules, loop: loop) {
            state.withLock { $0.isLost = true }
            trace.error("children", SpawnerLink.endedText)
        }
        loop.post { [link] in link.open() }
    }

    package func obstacle(to name: String, mustFilter: Bool) -> ChildError? {
        let path = spawner.rules.path(of: name)
        if state.withLock({ $0.isLost }) {
            return ChildError(
                code: .other,
                description: "cannot start \(name): \(SpawnerLink.endedText)"
            )
        }
        guard spawner.rules.programs.contains(name) else { return SystemError.child(EPERM, path) }
        if let error = missing[name] { return error }
        guard mustFilter, let unfiltered else { return nil }
        return ChildError(
            code: .unfiltered,
            description: "the kernel does not filter the system calls of \(path): \(unfiltered)"
        )
    }

    package func start(
        _ program: ChildProgram,
        on lane: any Lane,
        _ handler: any ChildHandler
    ) -> any ChildProcess {
        let (loop, number) = state.withLock { state in
            state.lastNumber &+= 1
            return (state.loop, state.lastNumber)
        }
        let child = LinuxChild(program, on: lane, handler) { [link] in
            loop?.post { link.kill(number) }
        }
        let isPosted = loop?.postIfRunning { [link] in link.start(child, number: number) } ?? false
        if !isPosted { child.refuse() }
        return child
    }

    /// Kills all children and ends the spawner and the thread; later starts fail.
    package func stop() {
        guard let loop = state.withLock({ exchange(&$0.loop, with: nil) }) else { return }
        loop.stop()
        if let process = spawner.process { divan_reap_copy(process, 1_000) }
    }
}
