internal import Glibc

/// A program to run to its end, with limits.
package struct LimitedProgram: Sendable {
    package let path: String
    /// The words after the program's name.
    package let arguments: [String]
    /// Processor time that the process may use, of all its threads.
    package let cpuNanosecondsMax: UInt64
    /// Time by the clock, because a process that waits for something uses no processor time.
    package let nanosecondsMax: UInt64

    package init(
        _ path: String,
        _ arguments: [String],
        cpuNanosecondsMax: UInt64,
        nanosecondsMax: UInt64
    ) {
        self.path = path
        self.arguments = arguments
        self.cpuNanosecondsMax = cpuNanosecondsMax
        self.nanosecondsMax = nanosecondsMax
    }
}

/// The output of a program until its end, and the kind of its end.
package struct ProgramReport: Sendable {
    package enum End: Hashable, Sendable {
        case exited(status: Int32)
        case signalled(Int32)
        /// It used more than `cpuNanosecondsMax`, and was killed if it had not ended.
        case exceededCPUTime
        /// It was killed after `nanosecondsMax`.
        case exceededTime
        /// The system did not start it, or lost its status; the reason.
        case failed(String)
    }

    package let end: End
    package let output: [UInt8]
    package let errors: [UInt8]
    package let cpuNanoseconds: UInt64
}

/// A running program whose output and errors are collected.
///
/// A limit of processor time is fair to a process that other processes starve; a limit by the clock
/// is not, and is the last resort against a process that waits for ever.
///
/// - One thread creates the runs and waits for them; there is no other thread and no signal handler.
/// - The process has the null device as standard input, and the environment of this process. It blocks no
///   signal.
/// - A run that is released before its end kills its process.
package final class ProgramRun {
    /// How often the limits are compared.
    private static let checkMilliseconds: Int32 = 100
    /// How often a process that has closed its output, so probably ends, is asked for its status.
    private static let endingMilliseconds: Int32 = 5

    /// Nil when the program has ended.
    package private(set) var process: Int32?
    /// Nil while the program runs.
    package private(set) var report: ProgramReport?
    private let program: LimitedProgram
    private let beganAt = LinuxClock.waitingNanoseconds()
    private var output = CollectedPipe()
    private var errors = CollectedPipe()
    private var cpuNanoseconds: UInt64 = 0
    /// The limit for which the process was killed.
    private var exceeded: ProgramReport.End?

    /// Starts the program; if the system does not start it, `report` has the reason.
    package init(_ program: LimitedProgram) {
        self.program = program
        let code = start()
        guard code != 0 else { return }
        finish(.failed("Cannot start \(program.path): \(SystemError.text(code))."))
    }

    deinit {
        output.close()
        errors.close()
        guard let process else { return }
        kill(process, SIGKILL)
        while waitpid(process, nil, 0) < 0, errno == EINTR {}
    }

    /// Waits until a program has ended, at once if one has already.
    ///
    /// - Returns: The places of the ended ones, ascending.
    package static func waitForEnds(of runs: [ProgramRun]) -> [Int] {
        precondition(!runs.isEmpty, "without a run there is nothing to wait for")
        while true {
            for run in runs { run.update() }
            let ended = runs.indices.filter { runs[$0].report != nil }
            if !ended.isEmpty { return ended }
            var watched = runs.flatMap { [$0.output.descriptor, $0.errors.descriptor] }
                .filter { $0 >= 0 }.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            let isEnding = runs.contains { $0.output.descriptor < 0 && $0.errors.descriptor < 0 }
            // An interrupted or failed wait only makes the next comparison earlier.
            _ = poll(
                &watched,
                nfds_t(watched.count),
                isEnding ? endingMilliseconds : checkMilliseconds
            )
        }
    }

    // MARK: Start

    /// Starts the process; returns 0 or the number of the error.
    private func start() -> Int32 {
        guard let output = CollectedPipe.open() else { return errno }
        self.output = output.pipe
        defer { close(output.writer) }
        guard let errors = CollectedPipe.open() else { return errno }
        self.errors = errors.pipe
        defer { close(errors.writer) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output.writer, STDOUT_FILENO)
        posix_spawn_file_actions_adddup2(&actions, errors.writer, STDERR_FILENO)
        let words = ([program.path] + program.arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        var attributes = ProgramRun.defaultSignals()
        defer { posix_spawnattr_destroy(&attributes) }
        var number: pid_t = 0
        let code = posix_spawn(
            &number,
            program.path,
            &actions,
            &attributes,
            words + [nil],
            environ
        )
        if code == 0 { process = number }
        return code
    }

    /// A process inherits which signals the thread that starts it blocks and ignores: a program would not
    /// end by a signal that this process blocks.
    private static func defaultSignals() -> posix_spawnattr_t {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        for signal in [SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM] { sigaddset(&signals, signal) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        let flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        posix_spawnattr_setflags(&attributes, Int16(flags))
        return attributes
    }

    // MARK: Limits and end

    private func update() {
        output.drain()
        errors.drain()
        guard let process else { return }
        var status: Int32 = 0
        var usage = rusage()
        let ended = wait4(process, &status, WNOHANG, &usage)
        if ended == process {
            cpuNanoseconds =
                ProgramRun.nanoseconds(usage.ru_utime) + ProgramRun.nanoseconds(usage.ru_stime)
            if exceeded == nil, cpuNanoseconds > program.cpuNanosecondsMax {
                exceeded = .exceededCPUTime
            }
            finish(exceeded ?? ProgramRun.end(status))
        } else if ended < 0, errno != EINTR {
            finish(.failed("The status of process \(process) is lost: \(SystemError.text(errno))."))
        } else if exceeded == nil {
            enforceLimits(process)
        }
    }

    private func enforceLimits(_ process: pid_t) {
        if let used = ProgramRun.cpuNanoseconds(of: process),
            used > program.cpuNanosecondsMax
        {
            exceeded = .exceededCPUTime
        } else if LinuxClock.waitingNanoseconds() - beganAt > program.nanosecondsMax {
            exceeded = .exceededTime
        } else {
            return
        }
        kill(process, SIGKILL)
    }

    private func finish(_ end: ProgramReport.End) {
        // Output that the process wrote before its end is in the pipes.
        output.drain()
        errors.drain()
        output.close()
        errors.close()
        process = nil
        report = ProgramReport(
            end: end,
            output: output.bytes,
            errors: errors.bytes,
            cpuNanoseconds: cpuNanoseconds
        )
    }

    private static func end(_ status: Int32) -> ProgramReport.End {
        let signal = status & 0x7F
        return signal == 0 ? .exited(status: status >> 8 & 0xFF) : .signalled(signal)
    }

    /// Nil if the system does not know it, for example because the process has ended.
    private static func cpuNanoseconds(of process: pid_t) -> UInt64? {
        var clock = clockid_t()
        var time = timespec()
        guard clock_getcpuclockid(process, &clock) == 0, clock_gettime(clock, &time) == 0 else {
            return nil
        }
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    private static func nanoseconds(_ time: timeval) -> UInt64 {
        UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_usec) * 1_000
    }
}

/// The reading end of a pipe, and what came through it.
private struct CollectedPipe {
    /// How many bytes one call collects: a process may write faster than this one reads.
    ///
    /// A pipe holds less, so one call empties the pipe of a process that has ended.
    private static let drainBytesMax = 4 << 20

    /// -1 when it is closed.
    private(set) var descriptor: Int32 = -1
    private(set) var bytes: [UInt8] = []

    /// - Returns: Nil if the system has no pipe; `errno` is the reason.
    static func open() -> (pipe: CollectedPipe, writer: Int32)? {
        var ends: [Int32] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { return nil }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
        var pipe = CollectedPipe()
        pipe.descriptor = ends[0]
        return (pipe, ends[1])
    }

    /// Collects the bytes that are there.
    mutating func drain() {
        var piece = [UInt8](repeating: 0, count: descriptor < 0 ? 0 : 64 << 10)
        var drained = 0
        while descriptor >= 0, drained < CollectedPipe.drainBytesMax {
            let count = read(descriptor, &piece, piece.count)
            if count > 0 {
                bytes += piece[..<count]
                drained += count
            } else if count == 0 {
                close()
            } else if errno != EINTR {
                // Nothing is there now. Any other error comes again, until the process ends.
                return
            }
        }
    }

    mutating func close() {
        if descriptor >= 0 { _ = Glibc.close(descriptor) }
        descriptor = -1
    }
}
