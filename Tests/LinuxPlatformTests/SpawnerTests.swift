import Glibc
import LinuxPlatform
import Seams
import TestSupport
import Testing

/// What a spawner refuses, and what its end means for the front.
///
/// `ChildTests` has what both starters do.
@Suite struct SpawnerTests {
    private let trace = RecordingTrace()
    private let lane = LinuxLanes(reactorCount: 1).makeLane("scripts")
    private let rules = SpawnRules(
        directory: "/bin",
        childrenMax: 2,
        ["sh": { $0.count == 2 && $0[0] == "-c" }]
    )

    /// A front and the socket that its spawner would have.
    private func makeFront() -> (children: SpawnerChildren, socket: Int32) {
        let ends = socketPair(SOCK_SEQPACKET)
        let children = SpawnerChildren(Spawner(socket: ends[0], rules: rules), trace: trace)
        return (children, ends[1])
    }

    private func serve(_ socket: Int32) -> InBackground {
        InBackground { [rules] in
            var server = SpawnServer(socket: socket, rules: rules)
            server.serve()
        }
    }

    @Test func programOrArgumentsOutsideTheRulesAreRefused() async {
        let (children, socket) = makeFront()
        let serving = serve(socket)
        let programs = [
            ChildProgram("sh", arguments: ["-c"]),
            ChildProgram("sh", arguments: ["-x", "true"]),
            ChildProgram("sh", arguments: ["-c", "true", "more"]),
            ChildProgram("true"),
            ChildProgram("../bin/sh", arguments: ["-c", "true"]),
        ]
        for program in programs {
            let handler = TestChild()
            _ = children.start(program, on: lane, handler)
            let end = await handler.ends.wait().first
            guard case .notStarted(let error) = end else {
                Issue.record("\(program): the end is \(String(describing: end))")
                continue
            }
            #expect(error.code == .denied)
        }
        #expect(children.obstacle(to: "true", mustFilter: false)?.code == .denied)
        children.stop()
        #expect(throws: Never.self) { try serving.wait() }
    }

    @Test func spawnRequestLongerThanAMessageFails() async {
        let (children, socket) = makeFront()
        let serving = serve(socket)
        let handler = TestChild()
        let long = "exit 0 # " + String(repeating: "x", count: 5_000)
        _ = children.shell(long, on: lane, handler)
        let end = await handler.ends.wait().first
        guard case .notStarted = end else {
            Issue.record("the end is \(String(describing: end))")
            return
        }
        children.stop()
        #expect(throws: Never.self) { try serving.wait() }
    }

    @Test func spawnerStartsNoMoreChildrenThanItsRulesAllow() async {
        let (children, socket) = makeFront()
        let serving = serve(socket)
        let handlers = (0..<3).map { _ in TestChild() }
        let started = handlers.map { children.shell("echo up >&2; read line <&3", on: lane, $0) }
        guard case .notStarted(let error) = await handlers[2].ends.wait().first else {
            Issue.record("a third child was started")
            return
        }
        #expect(error.code == .noResources)
        started[0].kill()
        #expect(await handlers[0].ends.wait() == [.signalled(SIGKILL)])
        let next = TestChild()
        _ = children.shell("exit 3", on: lane, next)
        #expect(await next.ends.wait() == [.exited(status: 3)])
        children.stop()
        #expect(await handlers[1].ends.wait() == [.signalled(SIGKILL)])
        #expect(throws: Never.self) { try serving.wait() }
    }

    /// An attacker in the front may send anything.
    @Test func messagesThatAreNoRequestsAreIgnored() async throws {
        let ends = socketPair(SOCK_SEQPACKET)
        let serving = serve(ends[1])
        var random = SystemRandomNumberGenerator()
        let lengths = [1, 2, 4, 5, 6, 4_096, 4_097, 60_000]
        for length in lengths + Array(1...100) {
            var message = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
            // Neither a start nor the end of a child.
            if length > 4 { message[4] = 2 + message[4] % 254 }
            #expect(send(ends[0], message, message.count, Int32(MSG_NOSIGNAL)) == length)
        }
        // A start without a program, of bytes that are no text, and the end of no child.
        for tail: [UInt8] in [[0], [0, 0, 0], [0, 0xff, 0xfe, 0, 0xc0], [1], [1, 1, 1]] {
            let message: [UInt8] = [99, 0, 0, 0] + tail
            #expect(send(ends[0], message, message.count, Int32(MSG_NOSIGNAL)) == message.count)
        }
        let children = SpawnerChildren(Spawner(socket: ends[0], rules: rules), trace: trace)
        let handler = TestChild()
        _ = children.shell("exit 5", on: lane, handler)
        #expect(await handler.ends.wait() == [.exited(status: 5)])
        children.stop()
        #expect(throws: Never.self) { try serving.wait() }
    }

    @Test func endOfTheSpawnerEndsChildrenAndIsAnObstacle() async {
        let (children, socket) = makeFront()
        #expect(children.obstacle(to: "sh", mustFilter: false) == nil)
        let waiting = TestChild()
        let child = children.shell("exit 0", on: lane, waiting)
        close(socket)
        guard case .notStarted(let error) = await waiting.ends.wait().first else {
            Issue.record("a child was started without a spawner")
            return
        }
        #expect(error.description.contains("restart this program"))
        #expect(child.send(text: "x") == .closed)
        #expect(children.obstacle(to: "sh", mustFilter: false) == error)
        let late = TestChild()
        _ = children.shell("exit 0", on: lane, late)
        #expect(await late.ends.wait() == [.notStarted(error)])
        #expect(trace.lines(atLeast: .error).count == 1)
        children.stop()
    }
}
