import Glibc
import LinuxPlatform
import Seams
import TestSupport
import Testing

/// Which process starts the children of a test.
enum ChildStarter: CaseIterable, Sendable {
    case thisProcess
    /// A spawner, which is a thread here: the test process has too many to be forked.
    case spawner
}

/// Child processes of a test, and the lane of their handlers.
struct ChildStage {
    let children: any ChildProcesses
    let lane = LinuxLanes(reactorCount: 1).makeLane("scripts")
    let stopChildren: @Sendable () -> Void

    /// - Parameters:
    ///   - starter: The process that starts them.
    ///   - directory: Where the programs are.
    ///   - programs: Those that a spawner starts.
    init(
        _ starter: ChildStarter,
        directory: String = "/bin",
        programs: [String] = ["sh", "no-such-program"]
    ) {
        let trace = RecordingTrace()
        guard starter == .spawner else {
            let children = LinuxChildren(directory: directory, trace: trace)
            self.children = children
            stopChildren = { children.stop() }
            return
        }
        var checks: [String: SpawnRules.Check] = [:]
        for program in programs { checks[program] = { _ in true } }
        let rules = SpawnRules(directory: directory, childrenMax: 300, checks)
        let ends = socketPair(SOCK_SEQPACKET)
        let serving = InBackground {
            var server = SpawnServer(socket: ends[1], rules: rules)
            server.serve()
        }
        let children = SpawnerChildren(Spawner(socket: ends[0], rules: rules), trace: trace)
        self.children = children
        stopChildren = {
            children.stop()
            do { try serving.wait() } catch { Issue.record("the spawner has not ended") }
        }
    }

    func stop() {
        stopChildren()
        lane.stop()
    }
}

/// A pair of connected sockets, closed on exec.
func socketPair(_ kind: __socket_type) -> [Int32] {
    var ends: [Int32] = [-1, -1]
    let flags = Int32(kind.rawValue | SOCK_CLOEXEC.rawValue)
    precondition(socketpair(AF_UNIX, flags, 0, &ends) == 0, "no sockets: error \(errno)")
    return ends
}

/// Whether the process runs; an orphan that its new parent has not reaped yet does not.
func isRunning(process: pid_t) -> Bool {
    guard let file = fopen("/proc/\(process)/stat", "r") else { return false }
    defer { fclose(file) }
    var buffer = [UInt8](repeating: 0, count: 512)
    let count = fread(&buffer, 1, buffer.count, file)
    let text = String(decoding: buffer.prefix(count), as: UTF8.self)
    return !text.isEmpty && !text.contains(") Z ") && !text.contains(") X ")
}
