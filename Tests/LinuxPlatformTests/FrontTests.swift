import Glibc
import LinuxPlatform
import Seams
import TestSupport
import Testing

/// A confined process with a spawner that it forked: the program `divan-front-stand-in`.
@Suite struct FrontTests {
    private let children = LinuxChildren(trace: RecordingTrace())
    private let lane = LinuxLanes(reactorCount: 1).makeLane("scripts")

    private func startFront(_ handler: TestChild) async throws -> (any ChildProcess, pid_t) {
        let front = children.start(ChildProgram("divan-front-stand-in"), on: lane, handler)
        let lines = await handler.lines.wait { $0.hasPrefix("ready ") }
        let process = try #require(lines.first.flatMap { pid_t($0.dropFirst(6)) })
        return (front, process)
    }

    private func stop() {
        children.stop()
        lane.stop()
    }

    /// The numbers of a shell and of its parent, which is the spawner.
    private func startShell(
        _ front: any ChildProcess,
        _ handler: TestChild
    ) async throws -> (shell: pid_t, spawner: pid_t) {
        let known = handler.lines.values.count { $0.hasPrefix("child ") }
        let script = "start echo $$ $PPID >&2; exec sleep 1000\n"
        #expect(front.send(text: script) == .accepted)
        let lines = await handler.lines.wait(known + 1) { $0.hasPrefix("child ") }
        let numbers = try #require(lines.last).split(separator: " ").compactMap { pid_t($0) }
        try #require(numbers.count == 2)
        return (numbers[0], numbers[1])
    }

    private func waitForEnds(of processes: [pid_t]) async throws {
        try await waitUntil("\(processes) have ended") {
            processes.allSatisfy { !isRunning(process: $0) }
        }
    }

    @Test func confinedFrontIsRefusedEverythingButServingConnections() async throws {
        defer { stop() }
        let handler = TestChild()
        let (front, _) = try await startFront(handler)
        #expect(front.send(text: "try\nstop\n") == .accepted)
        #expect(await handler.ends.wait() == [.exited(status: 0)])
        let lines = handler.lines.values.filter { $0.contains(": ") }
        let refused = "\(EPERM)"
        #expect(
            lines == [
                "read a file", "create a file", "make a directory", "remove a file",
                "make a socket", "connect", "bind", "listen", "send a datagram",
                "open by sending", "send with the flag", "execute", "spawn", "signal a process",
                "mount", "direct signals", "raise a limit", "make code", "protect as code",
            ].map { "\($0): \(refused)" }
                + [
                    "make memory", "accept and answer", "start a thread",
                    "listen before the second step", "set a flag",
                ].map { "\($0): allowed" }
        )
    }

    @Test func spawnerStartsChildrenOfAConfinedFrontAndEndsWithIt() async throws {
        defer { stop() }
        let handler = TestChild()
        let (front, process) = try await startFront(handler)
        let (shell, spawner) = try await startShell(front, handler)
        #expect(spawner != process)
        #expect(front.send(text: "resident\n") == .accepted)
        #expect(await handler.lines.wait { $0 == "resident true" }.count == 1)
        #expect(front.send(text: "stop\n") == .accepted)
        #expect(await handler.ends.wait() == [.exited(status: 0)])
        #expect(handler.lines.values.contains("stopped"))
        // The front has reaped its spawner, and the spawner its child.
        #expect(kill(shell, 0) == -1)
        #expect(kill(spawner, 0) == -1)
    }

    @Test func killedFrontEndsItsSpawnersAndChildren() async throws {
        defer { stop() }
        let handler = TestChild()
        let (front, process) = try await startFront(handler)
        var others: [pid_t] = []
        for _ in 0..<3 {
            let (shell, spawner) = try await startShell(front, handler)
            others += [shell, spawner]
        }
        #expect(others.allSatisfy { isRunning(process: $0) })
        kill(process, SIGKILL)
        #expect(await handler.ends.wait() == [.signalled(SIGKILL)])
        try await waitForEnds(of: others)
    }

    @Test func killedSpawnerLeavesNoChildrenAndARunningFront() async throws {
        defer { stop() }
        let handler = TestChild()
        let (front, process) = try await startFront(handler)
        let (shell, spawner) = try await startShell(front, handler)
        kill(spawner, SIGKILL)
        #expect(await handler.lines.wait { $0.hasPrefix("ended signalled") }.count == 1)
        try await waitForEnds(of: [shell, spawner])
        #expect(front.send(text: "start exit 0\n") == .accepted)
        #expect(await handler.lines.wait { $0.hasPrefix("ended notStarted") }.count == 1)
        #expect(isRunning(process: process))
    }

    /// A terminal and a service manager send them to every process.
    @Test func signalsThatEndAFrontLeaveItsSpawner() async throws {
        defer { stop() }
        let handler = TestChild()
        let (front, _) = try await startFront(handler)
        let (shell, spawner) = try await startShell(front, handler)
        for signal in [SIGTERM, SIGINT, SIGHUP] { kill(spawner, signal) }
        let next = try await startShell(front, handler)
        #expect(next.spawner == spawner)
        #expect(isRunning(process: shell))
    }
}
