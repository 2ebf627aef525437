import Bytes
import Foundation
import Testing
import Wire

/// A `divan-script` that the test started, on the other end of a socket.
///
/// Every wait is bounded; the process ends with this object.
final class ScriptChild {
    static let program = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        .deletingLastPathComponent().appending(path: "divan-script").path

    let pid: pid_t
    private let socket: Int32
    private let input = ByteWriter()
    private var status: Int32?

    /// MiB of resident memory when the process was ready, and the most since, as polled while a
    /// test waited.
    private(set) var residentAtStart = 0
    private(set) var residentMax = 0
    private(set) var isFiltered = false

    init(memoryMebibytes: Int = 128) throws {
        var ends: [Int32] = [0, 0]
        try #require(
            socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0
        )
        socket = ends[0]
        pid = try ScriptChild.spawn(["--memory", "\(memoryMebibytes)"], descriptor: ends[1])
        close(ends[1])
        let ready = try answer(functions: 0)
        try #require(ready.isReady, "the process must announce that it is ready")
        residentAtStart = resident()
        residentMax = residentAtStart
    }

    deinit {
        close(socket)
        if status == nil {
            kill(pid, SIGKILL)
            waitpid(pid, nil, 0)
        }
    }

    /// Starts the program with `descriptor` as its third; nil: without one.
    static func spawn(
        _ arguments: [String],
        descriptor: Int32?,
        standardOutput: Int32? = nil
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if let standardOutput {
            posix_spawn_file_actions_adddup2(&actions, standardOutput, 1)
            posix_spawn_file_actions_adddup2(&actions, standardOutput, 2)
        }
        if let descriptor {
            posix_spawn_file_actions_adddup2(&actions, descriptor, 3)
        } else {
            posix_spawn_file_actions_addclose(&actions, 3)
        }
        let words = ([program] + arguments).map { strdup($0) }
        defer { for word in words { free(word) } }
        var pid: pid_t = 0
        let code = posix_spawn(&pid, program, &actions, nil, words + [nil], [nil])
        try #require(code == 0, "\(program) cannot be started: \(code)")
        return pid
    }

    // MARK: Requests

    func define(_ function: UInt32, _ source: String, use: ScriptUse = .map) throws -> Answer {
        try exchange(Requests.define(function, source, use: use), functions: 1)
    }

    func map(_ functions: [UInt32], _ bodies: [String]) throws -> Answer {
        let documents = bodies.map { Document(body: $0) }
        return try exchange(Requests.map(functions, documents), functions: functions.count)
    }

    /// Sends bytes that need not be a request.
    func send(_ view: ByteView) {
        var rest = view
        while !rest.isEmpty {
            let count = Foundation.send(socket, rest.start, rest.count, Int32(MSG_NOSIGNAL))
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Ends the sending side, as a node that has closed.
    func closeSending() { shutdown(socket, Int32(SHUT_WR)) }

    private func exchange(_ request: ByteWriter, functions: Int) throws -> Answer {
        send(request.view)
        return try answer(functions: functions)
    }

    /// The replies until the answer is complete, or the process has closed its socket.
    private func answer(functions: Int) throws -> Answer {
        let clock = ContinuousClock()
        let deadline = clock.now + .seconds(60)
        var answer = Answer()
        while !answer.isComplete(functions: functions) {
            try #require(clock.now < deadline, "the process neither answers nor ends")
            guard try receive() else { return answer }
            var offset = 0
            while case .frame(let frame) = ScriptFrame.next(
                in: input.view.dropFirst(offset),
                bytesMax: ScriptLimits.replyBytesMax
            ) {
                if case .ready(let version, let isFiltered) = ScriptReply(frame) {
                    #expect(version == ScriptFrame.version)
                    self.isFiltered = isFiltered
                }
                try answer.add(frame)
                offset += frame.byteCount
            }
            input.removeFirst(offset)
        }
        return answer
    }

    /// Waits 5 ms for bytes; false when the process has closed its socket.
    private func receive() throws -> Bool {
        residentMax = max(residentMax, resident())
        var waited = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
        guard poll(&waited, 1, 5) > 0 else { return true }
        let start = input.count
        let count = read(socket, input.claim(1 << 20), 1 << 20)
        input.truncate(to: start + max(count, 0))
        return count > 0
    }

    // MARK: The process

    /// MiB of resident memory; 0 after the end.
    func resident() -> Int {
        let fields = text("statm").split(separator: " ")
        return fields.count > 1 ? ((Int(fields[1]) ?? 0) * 4_096) >> 20 : 0
    }

    /// The text of a file in the process's folder of /proc; empty if there is none.
    func text(_ file: String) -> String {
        (try? String(contentsOfFile: "/proc/\(pid)/\(file)", encoding: .utf8)) ?? ""
    }

    /// The open descriptors, with what they lead to.
    func descriptors() throws -> [(number: Int, target: String)] {
        let folder = "/proc/\(pid)/fd"
        return try FileManager.default.contentsOfDirectory(atPath: folder).map { name in
            let target = try FileManager.default.destinationOfSymbolicLink(
                atPath: "\(folder)/\(name)"
            )
            return (try #require(Int(name)), target)
        }
    }

    /// How the process ended: its exit status, or the negative number of a signal; nil after 20 s.
    func end() -> Int32? { status ?? wait() }

    private func wait() -> Int32? {
        status = ScriptChild.end(of: pid)
        return status
    }

    static func end(of pid: pid_t) -> Int32? {
        for _ in 0..<4_000 {
            var raw: Int32 = 0
            if waitpid(pid, &raw, WNOHANG) == pid {
                return raw & 0x7f == 0 ? raw >> 8 & 0xff : -(raw & 0x7f)
            }
            usleep(5_000)
        }
        return nil
    }
}
