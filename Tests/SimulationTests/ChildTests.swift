import Bytes
import Seams
import SimulatedPlatform
import Testing

/// Child processes of simulated nodes.
@Suite struct ChildTests {
    private let world: SimulatedWorld
    private let host: SimulatedHost
    private let environment: Environment

    init() {
        world = SimulatedWorld(seed: 5)
        host = world.addHost("10.0.0.1")
        environment = host.start()
        world.install("echo") { console, _ in EchoProgram(console) }
    }

    private func start(_ name: String, _ arguments: [String] = []) -> (any ChildProcess, Recorder) {
        let recorder = Recorder()
        let program = ChildProgram(
            name,
            arguments: arguments,
            outputBytesMax: 100_000,
            inputBytesMax: 50_000
        )
        let lane = environment.lanes.makeLane("scripts")
        return (environment.children.start(program, on: lane, recorder), recorder)
    }

    private func run(milliseconds: UInt64 = 100) { world.run(for: milliseconds * 1_000_000) }

    @Test func childEchoesDataInOrder() {
        let (child, recorder) = start("echo")
        var sent: [UInt8] = []
        var random = SeededRandom(seed: 1)
        for _ in 0..<200 {
            let piece = (0..<Int(random.next() % 900)).map { UInt8(truncatingIfNeeded: $0 * 7) }
            #expect(child.send(piece) == .accepted)
            sent += piece
            if random.next() % 3 == 0 { run(milliseconds: 1) }
        }
        run()
        #expect(recorder.seen.withLock { $0.bytes } == sent)
        #expect(recorder.seen.withLock { $0.pieces } > 50)
        #expect(child.residentBytes == 8 << 20)
    }

    @Test func exitedChildDeliversItsBytesThenItsStatus() {
        world.install("leave") { console, arguments in
            console.log("bye")
            console.send(Array(arguments.joined().utf8))
            console.exit(status: 7)
            console.send([1])
            return EchoProgram(console)
        }
        let (child, recorder) = start("leave", ["la", "st"])
        run()
        #expect(recorder.calls == ["logged bye", "received", "ended exited(status: 7)"])
        #expect(recorder.seen.withLock { $0.bytes } == Array("last".utf8))
        #expect(child.send([1]) == .closed)
        #expect(child.residentBytes == nil)
    }

    @Test func killedChildEndsOnce() {
        let (child, recorder) = start("echo")
        run()
        child.kill()
        child.kill()
        run()
        #expect(recorder.calls == ["ended signalled(9)"])
    }

    @Test func missingProgramIsATypedErrorWithItsCure() throws {
        let (child, recorder) = start("no-such-program")
        run()
        guard case .notStarted(let error) = try #require(recorder.seen.withLock { $0.end }) else {
            Issue.record("the program was started")
            return
        }
        #expect(error.code == .missing)
        #expect(error.description.contains("install it beside the running program"))
        #expect(child.send([1]) == .closed)
    }

    @Test func childThatDoesNotReadRefusesBytesUntilItDoes() {
        let valve = Valve()
        world.install("valve") { _, _ in valve }
        let (child, recorder) = start("valve")
        let piece = [UInt8](repeating: 1, count: 30_000)
        #expect((0..<4).map { _ in child.send(piece) } == [.accepted, .accepted, .accepted, .full])
        run()
        #expect(recorder.calls.isEmpty)
        valve.isOpen = true
        #expect(child.send([1]) == .accepted)
        run()
        #expect(recorder.calls == ["drained"])
        #expect(child.send(piece) == .accepted)
    }

    @Test func childThatClosesItsChannelIsReportedAndStillRuns() {
        world.install("close") { console, _ in
            console.closeChannel()
            return EchoProgram(console)
        }
        let (child, recorder) = start("close")
        run()
        #expect(recorder.calls == ["closed"])
        #expect(child.send([1]) == .closed)
        #expect(child.residentBytes != nil)
    }

    @Test func childThatSendsTooLargeAFrameIsKilled() {
        world.install("flood") { console, _ in
            for _ in 0..<60 { console.send([UInt8](repeating: 0, count: 1_000)) }
            return EchoProgram(console)
        }
        let (_, recorder) = start("flood")
        recorder.keepsInput.withLock { $0 = true }
        run()
        #expect(recorder.seen.withLock { $0.end } == .signalled(9))
    }

    @Test(arguments: 1...20) func childMayDieInTheMiddleOfItsOutput(seed: UInt64) {
        let world = SimulatedWorld(seed: seed)
        world.install("echo") { console, _ in EchoProgram(console) }
        let environment = world.addHost("10.0.0.1").start()
        let recorder = Recorder()
        let lane = environment.lanes.makeLane("scripts")
        let child = environment.children.start(ChildProgram("echo"), on: lane, recorder)
        world.run(for: 100_000_000)
        let fault = Fault.endChild("10.0.0.1", .exited(status: 3), isMidOutput: true)
        world.apply(fault)
        world.run(for: 100_000_000)
        #expect(recorder.calls.isEmpty)
        #expect(child.send([UInt8](repeating: 1, count: 1_000)) == .accepted)
        world.run(for: 100_000_000)
        #expect(recorder.seen.withLock { $0.bytes.count } < 1_000)
        #expect(recorder.seen.withLock { $0.end } == .exited(status: 3))
        // Without a child the fault does nothing.
        world.apply(fault)
    }

    @Test func faultEndsAChildAtOnce() {
        let (_, recorder) = start("echo")
        run()
        world.apply(.endChild("10.0.0.1", .signalled(6), isMidOutput: false))
        run()
        #expect(recorder.calls == ["ended signalled(6)"])
    }

    @Test func slowChildrenAnswerLate() {
        let (child, recorder) = start("echo")
        run()
        world.apply(.slowChildren("10.0.0.1", nanoseconds: 3_000_000_000))
        #expect(child.send([1]) == .accepted)
        run(milliseconds: 2_999)
        #expect(recorder.calls.isEmpty)
        run()
        #expect(recorder.calls == ["received"])
        world.apply(.slowChildren("10.0.0.1", nanoseconds: 0))
        #expect(child.send([1]) == .accepted)
        run(milliseconds: 1)
        #expect(recorder.calls == ["received", "received"])
    }

    @Test func crashOfTheNodeEndsItsChildrenWithoutCallbacks() {
        let (child, recorder) = start("echo")
        let consoles = Guarded<[ProgramConsole]>([])
        world.install("kept") { console, _ in
            consoles.withLock { $0.append(console) }
            return EchoProgram(console)
        }
        let (_, other) = start("kept")
        run()
        #expect(child.send([1]) == .accepted)
        host.crash()
        run()
        #expect(recorder.calls.isEmpty && other.calls.isEmpty)
        #expect(consoles.withLock { $0.map(\.hasEnded) } == [true])
        #expect(child.send([1]) == .closed)
        // The next process has children of its own.
        let next = host.start()
        let late = Recorder()
        let lane = next.lanes.makeLane("scripts")
        _ = next.children.start(ChildProgram("echo"), on: lane, late).send([1, 2])
        run()
        #expect(late.seen.withLock { $0.bytes } == [1, 2])
    }

    @Test func frozenNodeReceivesEventsOfChildrenAfterThaw() {
        let (child, recorder) = start("echo")
        run()
        #expect(child.send([1]) == .accepted)
        host.freeze()
        run(milliseconds: 1_000)
        #expect(recorder.calls.isEmpty)
        host.thaw()
        run()
        #expect(recorder.calls == ["received"])
    }

    @Test func equalSeedsGiveEqualRuns() {
        func digest(_ seed: UInt64) -> UInt64 {
            let world = SimulatedWorld(seed: seed)
            world.install("echo") { console, _ in EchoProgram(console) }
            let environment = world.addHost("10.0.0.1").start()
            let recorder = Recorder()
            let lane = environment.lanes.makeLane("scripts")
            let child = environment.children.start(ChildProgram("echo"), on: lane, recorder)
            for count in 1..<100 { _ = child.send([UInt8](repeating: 1, count: count)) }
            world.run(for: 1_000_000_000)
            return world.transcript.digest
        }
        #expect(digest(1) == digest(1))
        #expect(Set((1...20).map(digest)).count == 20)
    }
}

/// A program that sends back what it receives.
private final class EchoProgram: SimulatedProgram {
    private let console: ProgramConsole

    init(_ console: ProgramConsole) { self.console = console }

    func received(_ input: ByteView) -> Int {
        console.send(input)
        return input.count
    }
}

/// A program that reads only while it is open.
private final class Valve: SimulatedProgram {
    var isOpen = false

    func received(_ input: ByteView) -> Int { isOpen ? input.count : 0 }
}

/// A handler that records its calls.
private final class Recorder: ChildHandler {
    struct Seen {
        var bytes: [UInt8] = []
        var pieces = 0
        var calls: [String] = []
        var end: ChildEnd?
    }

    let seen = Guarded(Seen())
    let keepsInput = Guarded(false)

    var calls: [String] { seen.withLock { $0.calls } }

    func received(_ input: ByteView) -> Int {
        if keepsInput.withLock({ $0 }) { return 0 }
        seen.withLock { seen in
            seen.bytes += input.bytes
            seen.pieces += 1
            // Bytes may arrive in pieces, which is one call for these tests.
            if seen.calls.last != "received" || input.count == 1 { seen.calls.append("received") }
        }
        return input.count
    }

    func logged(_ line: String) { seen.withLock { $0.calls.append("logged \(line)") } }

    func drained() { seen.withLock { $0.calls.append("drained") } }

    func closed() { seen.withLock { $0.calls.append("closed") } }

    func ended(_ end: ChildEnd) {
        seen.withLock { seen in
            seen.end = end
            seen.calls.append("ended \(end)")
        }
    }
}

extension ChildProcess {
    fileprivate func send(_ bytes: [UInt8]) -> ChildSendOutcome {
        bytes.withUnsafeBytes { send(ByteView($0)) }
    }
}

extension ProgramConsole {
    fileprivate func send(_ bytes: [UInt8]) { bytes.withUnsafeBytes { send(ByteView($0)) } }
}
