internal import CLinux
internal import Glibc
internal import Seams

/// The programs of the installation that a spawner starts for a front, with checks of their arguments.
package struct SpawnRules: Sendable {
    /// A program by its name, and which arguments it may have.
    package typealias Check = @Sendable (_ arguments: [String]) -> Bool

    /// The directory of the programs.
    let directory: String
    /// Children that may run at the same time.
    let childrenMax: Int
    private let checks: [String: Check]

    /// - Parameters:
    ///   - directory: Nil for that of the running program.
    ///   - childrenMax: Further children are refused, as when the system has no resources.
    ///   - checks: By the names of programs.
    package init(directory: String? = nil, childrenMax: Int = 64, _ checks: [String: Check]) {
        self.directory = directory ?? LinuxChildren.ownDirectory()
        self.childrenMax = childrenMax
        self.checks = checks
    }

    var programs: [String] { checks.keys.sorted() }

    func path(of program: String) -> String { directory + "/" + program }

    func allow(_ program: String, _ arguments: [String]) -> Bool {
        checks[program].map { $0(arguments) } ?? false
    }
}

/// A request of the front: four bytes of the child's number, in the machine's order, one of the kind, and the
/// text of a start.
///
/// The text is the program and its arguments, each but the first behind a zero byte, as no argument has one.
enum SpawnRequest {
    case start(child: UInt32, program: String, arguments: [String])
    case kill(child: UInt32)

    static let bytesMax = 4_096
    private static let headerBytes = 5

    var bytes: [UInt8] {
        switch self {
        case .start(let child, let program, let arguments):
            let words = ([program] + arguments).map { Array($0.utf8) }
            return withUnsafeBytes(of: child) { Array($0) } + [0] + words.joined(separator: [0])
        case .kill(let child):
            return withUnsafeBytes(of: child) { Array($0) } + [1]
        }
    }

    /// Nil if the bytes are no request; the front is not trusted.
    init?(_ bytes: ArraySlice<UInt8>) {
        guard bytes.count >= SpawnRequest.headerBytes else { return nil }
        let child = bytes.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }
        let text = bytes.dropFirst(SpawnRequest.headerBytes)
        switch bytes[bytes.startIndex + SpawnRequest.headerBytes - 1] {
        case 0:
            let words = text.split(separator: 0, omittingEmptySubsequences: false)
                .map { String(decoding: $0, as: UTF8.self) }
            self = .start(child: child, program: words[0], arguments: Array(words.dropFirst()))
        case 1: self = .kill(child: child)
        default: return nil
        }
    }

    init(start child: UInt32, _ program: ChildProgram) {
        self = .start(child: child, program: program.name, arguments: program.arguments)
    }
}

/// The kinds of `divan_spawn_report`.
enum SpawnReport: UInt32 {
    /// With descriptors; the value is 0.
    case started
    /// The value is the number of the error, or 0 if the rules do not allow the program or its arguments.
    case refused
    /// The value is the status or the signal.
    case ended
}

/// The spawner: starts, kills and reaps children for the process on the other end of a connection.
///
/// It serves one connection in one thread and ends with it: then it kills all children. The kernel kills them
/// if the spawner itself is killed, as they belong to its thread.
///
/// - The front may be in the hands of an attacker: each request is checked against the rules.
package struct SpawnServer {
    private let socket: Int32
    private let rules: SpawnRules
    private var children: [(number: UInt32, handle: Int32)] = []

    package init(socket: Int32, rules: SpawnRules) {
        self.socket = socket
        self.rules = rules
    }

    /// Serves until the other end has closed or sends no more, and all children have ended.
    package mutating func serve() {
        var isOpen = true
        while isOpen || !children.isEmpty {
            let descriptors = [isOpen ? socket : -1] + children.map(\.handle)
            var polled = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&polled, nfds_t(polled.count), -1) > 0 else { continue }
            reap()
            guard polled[0].revents != 0 else { continue }
            isOpen = handleRequest()
            if !isOpen { for child in children { _ = divan_signal_child(child.handle, SIGKILL) } }
        }
        close(socket)
    }

    /// Reports the children that have ended.
    private mutating func reap() {
        var running: [(number: UInt32, handle: Int32)] = []
        for child in children {
            var (status, isSignal): (Int32, Int32) = (0, 1)
            if divan_end_of_child(child.handle, 0, &status, &isSignal) == 0 {
                running.append(child)
            } else {
                close(child.handle)
                report(.ended, child.number, value: status, isSignal: isSignal)
            }
        }
        children = running
    }

    /// Handles one request; false if there are no more.
    private mutating func handleRequest() -> Bool {
        var buffer = [UInt8](repeating: 0, count: SpawnRequest.bytesMax)
        let count = divan_receive_request(socket, &buffer, buffer.count)
        guard count > 0 else { return false }
        guard count <= buffer.count, let request = SpawnRequest(buffer[..<count]) else {
            return true
        }
        switch request {
        case .kill(let number):
            guard let child = children.first(where: { $0.number == number }) else { break }
            _ = divan_signal_child(child.handle, SIGKILL)
        case .start(let number, let program, let arguments):
            start(number, program, arguments: arguments)
        }
        return true
    }

    private mutating func start(_ number: UInt32, _ program: String, arguments: [String]) {
        guard rules.allow(program, arguments),
            !children.contains(where: { $0.number == number })
        else { return report(.refused, number, value: 0) }
        guard children.count < rules.childrenMax else {
            return report(.refused, number, value: EAGAIN)
        }
        let path = rules.path(of: program)
        var system = divan_child()
        let code = LinuxChild.withArguments([path] + arguments) {
            divan_start_child(path, $0, &system)
        }
        guard code == 0 else { return report(.refused, number, value: code) }
        children.append((number, system.handle))
        // Without the file of its memory: the null device, which has no number either.
        let memory = system.memory >= 0 ? system.memory : STDIN_FILENO
        report(.started, number, descriptors: [system.channel, system.messages, memory])
        close(system.channel)
        close(system.messages)
        if system.memory >= 0 { close(system.memory) }
    }

    /// A report that cannot be sent is of no use: the front is gone, which the next request shows.
    private func report(
        _ kind: SpawnReport,
        _ child: UInt32,
        value: Int32 = 0,
        isSignal: Int32 = 0,
        descriptors: [Int32]? = nil
    ) {
        var report = divan_spawn_report(
            kind: kind.rawValue,
            child: child,
            value: value,
            is_signal: isSignal
        )
        if let descriptors {
            _ = divan_send_report(socket, &report, descriptors)
        } else {
            _ = divan_send_report(socket, &report, nil)
        }
    }
}
