internal import Bytes
internal import CLinux
internal import Glibc
package import Seams

/// The child processes of Linux: programs beside the running one, served by one thread.
///
/// - The kernel kills a child when the **thread** that started it ends, even if the process
///   continues. So all children are started by the thread that serves them: it ends only in `stop`,
///   which kills them anyway. A start on any other thread would kill children at random.
/// - The thread is made at once: later the process may have no descriptors or threads left.
package final class LinuxChildren: ChildProcesses {
    private struct State {
        /// Nil after `stop`.
        var loop: Reactor?
    }

    private let directory: String
    private let state: Guarded<State>

    /// Children whose programs are in `directory`; nil for that of the running program.
    package init(directory: String? = nil, trace: any Trace) {
        self.directory = directory ?? LinuxChildren.ownDirectory()
        // A parent that ignores SIGCHLD passes that on, and the kernel then drops the exit status of
        // children.
        signal(SIGCHLD, SIG_DFL)
        var limits = ReactorLimits()
        limits.receiveBytes = LinuxChild.readBytes
        let loop = Reactor(
            index: 0,
            limits: limits,
            quiescence: Quiescence(reactorCount: 1),
            trace: trace,
            name: "children"
        )
        state = Guarded(State(loop: loop))
    }

    package func obstacle(to name: String, mustFilter: Bool) -> ChildError? {
        let path = directory + "/" + name
        guard access(path, X_OK) == 0 else { return SystemError.child(errno, path) }
        guard mustFilter, let reason = Confinement.obstacleToFilter else { return nil }
        return ChildError(
            code: .unfiltered,
            description: "the kernel does not filter the system calls of \(path): \(reason)"
        )
    }

    package func start(
        _ program: ChildProgram,
        on lane: any Lane,
        _ handler: any ChildHandler
    ) -> any ChildProcess {
        let child = LinuxChild(program, on: lane, handler)
        guard let loop = state.withLock({ $0.loop }) else {
            child.refuse()
            return child
        }
        let isPosted = loop.postIfRunning { [directory] in child.start(in: directory, on: loop) }
        if !isPosted { child.refuse() }
        return child
    }

    /// Kills all children and ends the thread; later starts fail.
    package func stop() {
        let loop = state.withLock { exchange(&$0.loop, with: nil) }
        loop?.stop()
    }

    /// The directory of the running program, also if its file was replaced or removed since.
    static func ownDirectory() -> String {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = buffer.withUnsafeMutableBytes {
            $0.baseAddress.map { place in readlink("/proc/self/exe", place, Int(PATH_MAX)) } ?? 0
        }
        let path = buffer.prefix(max(0, count))
        let end = path.lastIndex(of: UInt8(ascii: "/")) ?? 0
        return String(decoding: path.prefix(end), as: UTF8.self)
    }
}
