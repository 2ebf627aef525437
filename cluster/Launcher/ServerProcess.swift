internal import Foundation
internal import LinuxPlatform

/// A server process that outlives the launcher, distinguished from a later one of the same number.
///
/// The system reuses process numbers. The process is identified by the tick of its start and the
/// boot as well; a signal is sent only if both still match.
struct ServerProcess: Codable {
    let pid: Int32
    private let startTick: UInt64
    private let boot: String

    /// A process that the launcher has just started.
    init(pid: Int32) {
        self.pid = pid
        startTick = ServerProcess.startTick(of: pid) ?? 0
        boot = ServerProcess.currentBoot
    }

    var isRunning: Bool {
        boot == ServerProcess.currentBoot && ServerProcess.startTick(of: pid) == startTick
    }

    /// Seconds since the process began.
    var uptimeSeconds: Int {
        var now = timespec()
        clock_gettime(CLOCK_BOOTTIME, &now)
        return max(0, now.tv_sec - Int(startTick) / max(1, sysconf(Int32(_SC_CLK_TCK))))
    }

    func signal(_ number: Int32) {
        if isRunning { Foundation.kill(pid, number) }
    }

    /// Waits for the end of the process; false if it still runs after `seconds`.
    func awaitEnd(seconds: Double) -> Bool {
        let deadline = Deadline(seconds: seconds)
        while isRunning {
            guard !deadline.hasPassed else { return false }
            pause(milliseconds: 10)
        }
        return true
    }

    private static var currentBoot: String {
        let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)
        return text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
    }

    /// When process `pid` began, in ticks since boot; nil if there is none, or only a zombie.
    private static func startTick(of pid: Int32) -> UInt64? {
        guard let text = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8),
            let name = text.lastIndex(of: ")")
        else { return nil }
        // The fields after the name in parentheses (which may contain anything) begin with the third.
        let fields = text[text.index(after: name)...].split(separator: " ")
        guard fields.count > 19, fields[0] != "Z", fields[0] != "X" else { return nil }
        return UInt64(fields[19])
    }
}

extension ServerProcess {
    /// Ends the server at once.
    ///
    /// - Throws: `Refusal` if it does not end.
    func kill() throws {
        signal(SIGKILL)
        guard awaitEnd(seconds: 10) else {
            throw Refusal("Process \(pid) does not end after SIGKILL.")
        }
    }

    /// POSIX_SPAWN_SETSID of spawn.h, which glibc shows to GNU sources only.
    private static let newSession: Int16 = 0x80

    /// A server must not inherit a lock, a pipe or a terminal of the launcher.
    private static func keepDescriptorsFromChildren() {
        let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        for descriptor in open.compactMap({ Int32($0) }) where descriptor > 2 {
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        }
    }

    /// Starts `program` in a session of its own, so that neither Ctrl-C nor the end of the terminal
    /// affects it, with no open file but its log.
    static func start(
        _ program: String,
        arguments: [String],
        output: String,
        log: String
    ) throws -> ServerProcess {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        // Those of an earlier start; a new file gets the mode below.
        for path in [output, log] { chmod(path, PrivateFiles.fileMode) }
        let (write, mode) = (O_WRONLY | O_CREAT, PrivateFiles.fileMode)
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, output, write | O_TRUNC, mode)
        posix_spawn_file_actions_addopen(&actions, 2, log, write | O_APPEND, mode)

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setflags(&attributes, newSession)
        keepDescriptorsFromChildren()

        var words: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) }
        words.append(nil)
        defer { for word in words { free(word) } }
        var pid: pid_t = 0
        let code = posix_spawn(&pid, program, &actions, &attributes, words, environ)
        guard code == 0 else {
            throw Refusal("Cannot start \(program): \(systemError(code)).")
        }
        return ServerProcess(pid: pid)
    }
}

/// The end of a wait.
struct Deadline {
    private let nanoseconds: UInt64

    init(seconds: Double) {
        nanoseconds = monotonicNanoseconds() + UInt64(seconds * 1e9)
    }

    var hasPassed: Bool { monotonicNanoseconds() >= nanoseconds }
}

func monotonicNanoseconds() -> UInt64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
}

func pause(milliseconds: Int) {
    usleep(UInt32(milliseconds) * 1_000)
}
