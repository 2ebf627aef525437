import Bytes
import Glibc
import LinuxPlatform
import Seams
import TestSupport
import Testing

/// Child processes, with the system's shell as the program.
@Suite struct ChildTests {
    @Test(arguments: ChildStarter.allCases)
    func childEchoesLargeDataThatIsSentInPieces(_ starter: ChildStarter) async throws {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild(delayMicroseconds: 500)
        let child = stage.children.shell("exec cat <&3 >&3", on: stage.lane, handler)
        var random = SeededRandom(seed: 17)
        var sent: [UInt8] = []
        while sent.count < 6 << 20 {
            let piece = (0..<Int(1 + random.next() % 60_000)).map { UInt8(truncatingIfNeeded: $0) }
            var outcome = child.send(piece)
            for _ in 0..<10_000 where outcome == .full {
                try await Task.sleep(for: .milliseconds(1))
                outcome = child.send(piece)
            }
            try #require(outcome == .accepted)
            sent += piece
        }
        for _ in 0..<3_000 where handler.received < sent.count {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(handler.bytes.withLock { $0 == sent })
        child.kill()
        #expect(await handler.ends.wait() == [.signalled(SIGKILL)])
    }

    @Test(arguments: ChildStarter.allCases)
    func onlyMissingProgramIsAnObstacle(_ starter: ChildStarter) {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        #expect(stage.children.obstacle(to: "sh", mustFilter: false) == nil)
        let error = stage.children.obstacle(to: "no-such-program", mustFilter: true)
        #expect(error?.code == .missing)
        #expect(error?.description.contains("/bin/no-such-program") == true)
    }

    @Test(arguments: ChildStarter.allCases)
    func exitedChildDeliversItsBytesThenItsStatus(_ starter: ChildStarter) async {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild()
        _ = stage.children.shell(
            "printf last >&3; printf 'bye' >&2; exit 7",
            on: stage.lane,
            handler
        )
        #expect(await handler.ends.wait() == [.exited(status: 7)])
        #expect(handler.text == "last")
        #expect(handler.lines.values == ["bye"])
        #expect(handler.lateCalls.values.isEmpty)
    }

    @Test(arguments: ChildStarter.allCases)
    func killedChildAcceptsNoBytesAndEndsOnce(_ starter: ChildStarter) async {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild()
        let child = stage.children.shell("echo ready >&2; exec sleep 1000", on: stage.lane, handler)
        #expect(await handler.lines.wait() == ["ready"])
        child.kill()
        child.kill()
        #expect(await handler.ends.wait() == [.signalled(SIGKILL)])
        #expect(child.send(text: "x") == .closed)
        child.kill()
        #expect(child.residentBytes == nil)
    }

    @Test(arguments: ChildStarter.allCases)
    func childThatIsKilledBeforeItsStartEnds(_ starter: ChildStarter) async {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild()
        stage.children.shell("exec sleep 1000", on: stage.lane, handler).kill()
        #expect(await handler.ends.wait() == [.signalled(SIGKILL)])
    }

    @Test(arguments: ChildStarter.allCases)
    func childThatClosesItsChannelIsReportedAndStillRuns(_ starter: ChildStarter) async {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild()
        let child = stage.children.shell(
            "printf end >&3; exec 3>&-; exec sleep 1000",
            on: stage.lane,
            handler
        )
        #expect(await handler.closes.wait().count == 1)
        #expect(handler.text == "end")
        #expect(child.send(text: "x") == .closed)
        #expect(handler.ends.values.isEmpty)
        child.kill()
        #expect(await handler.ends.wait() == [.signalled(SIGKILL)])
        #expect(handler.closes.values.count == 1)
    }

    @Test(arguments: ChildStarter.allCases)
    func childThatDoesNotReadRefusesBytesUntilItDoes(_ starter: ChildStarter) async throws {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild()
        let child = stage.children.shell(
            "echo $$ >&2; exec cat <&3 >/dev/null",
            on: stage.lane,
            handler,
            outputBytesMax: 100_000
        )
        let process = try #require(await handler.lines.wait().first.flatMap { pid_t($0) })
        kill(process, SIGSTOP)
        var accepted = 0
        let piece = [UInt8](repeating: 10, count: 10_000)
        while accepted < 100 << 20, child.send(piece) == .accepted { accepted += piece.count }
        // The system's buffer and the node's.
        #expect(accepted >= 100_000 && accepted < 2 << 20)
        #expect(child.send(piece) == .full)
        #expect(handler.drains.values.isEmpty)
        kill(process, SIGCONT)
        #expect(await handler.drains.wait().count == 1)
        #expect(child.send(piece) == .accepted)
        #expect(child.send([UInt8](repeating: 0, count: 100_001)) == .full)
    }

    @Test(arguments: ChildStarter.allCases)
    func childThatSendsTooLargeAFrameIsKilled(_ starter: ChildStarter) async {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild(keepsInput: true)
        _ = stage.children.shell(
            "exec cat /dev/zero >&3",
            on: stage.lane,
            handler,
            inputBytesMax: 3 << 20
        )
        #expect(await handler.ends.wait() == [.signalled(SIGKILL)])
    }

    @Test(arguments: ChildStarter.allCases)
    func childThatSendsFasterThanItsHandlerWaits(_ starter: ChildStarter) async {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild(delayMicroseconds: 200_000)
        let child = stage.children.shell("exec cat /dev/zero >&3", on: stage.lane, handler)
        // By the lane: a task of a test may wait for minutes until a thread is free.
        stage.lane.post(after: 500_000_000) { child.kill() }
        #expect(await handler.ends.wait() == [.signalled(SIGKILL)])
        #expect(handler.received > 0 && handler.received < 8 << 20)
    }

    @Test(arguments: ChildStarter.allCases)
    func messagesAreDeliveredByLinesOfBoundedLength(_ starter: ChildStarter) async {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild()
        let script = """
            echo one >&2; echo two; echo >&2; head -c 5000 /dev/zero | tr '\\0' x >&2; echo >&2
            seq 1 500 >&2; printf rest >&2
            """
        _ = stage.children.shell(script, on: stage.lane, handler)
        #expect(await handler.ends.wait() == [.exited(status: 0)])
        let long = String(repeating: "x", count: ChildLines.bytesMax) + " ..."
        #expect(
            handler.lines.values == ["one", "two", long] + (1...500).map(String.init) + ["rest"]
        )
    }

    @Test(arguments: ChildStarter.allCases)
    func missingProgramIsATypedErrorWithItsCure(_ starter: ChildStarter) async throws {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild()
        let child = stage.children.start(ChildProgram("no-such-program"), on: stage.lane, handler)
        let end = await handler.ends.wait().first
        guard case .notStarted(let error) = end else {
            Issue.record("the end is \(String(describing: end))")
            return
        }
        #expect(error.code == .missing)
        #expect(
            error.description == "cannot start /bin/no-such-program: there is no such program; "
                + "install it beside the running program"
        )
        #expect(child.send(text: "x") == .closed)
    }

    @Test(arguments: ["../bin/sh", "", "/bin/sh"], ChildStarter.allCases)
    func programWithAPathIsRefused(name: String, _ starter: ChildStarter) async {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild()
        _ = stage.children.start(ChildProgram(name), on: stage.lane, handler)
        let end = await handler.ends.wait().first
        guard case .notStarted = end else {
            Issue.record("the end is \(String(describing: end))")
            return
        }
    }

    @Test(arguments: ChildStarter.allCases)
    func fileThatIsNoProgramIsATypedError(_ starter: ChildStarter) async {
        let handler = TestChild()
        let stage = ChildStage(starter, directory: "/etc", programs: ["passwd"])
        defer { stage.stop() }
        _ = stage.children.start(ChildProgram("passwd"), on: stage.lane, handler)
        let end = await handler.ends.wait().first
        guard case .notStarted(let error) = end else {
            Issue.record("the end is \(String(describing: end))")
            return
        }
        #expect(error.code == .denied)
    }

    @Test(arguments: ChildStarter.allCases)
    func childHasOnlyItsOwnDescriptorsAndEnvironment(_ starter: ChildStarter) async throws {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        // Open files without close-on-exec in the parent, as a library may leave them.
        let leaks = (0..<20).map { _ in open("/dev/null", O_RDONLY) }
        defer { for leak in leaks { close(leak) } }
        let handler = TestChild()
        // Only external programs write: a redirection would duplicate descriptors of the shell.
        // The last one shows its own masks: a shell that has just forked blocks signals.
        let script = """
            readlink /proc/$$/fd/*; pwd; tr '\\0' '\\n' </proc/$$/environ
            grep -E '^Sig(Blk|Ign)' /proc/self/status
            """
        _ = stage.children.shell(script, on: stage.lane, handler)
        #expect(await handler.ends.wait() == [.exited(status: 0)])
        let lines = handler.lines.values
        try #require(lines.count == 9, "\(lines)")
        #expect(lines[0] == "/dev/null")
        #expect(lines[1].hasPrefix("pipe:") && lines[2] == lines[1])
        #expect(lines[3].hasPrefix("socket:"))
        #expect(Array(lines[4..<7]) == ["/", "TZ=UTC", "LC_ALL=C"])
        // Signals 32 and 33 belong to the C library, which does not change them.
        let masks = lines[7...].map { UInt64($0.suffix(16), radix: 16) ?? .max }
        #expect(masks.map { $0 & ~(3 << 31) } == [0, 0])
    }

    @Test(arguments: ChildStarter.allCases)
    func residentMemoryOfAChildIsMeasured(_ starter: ChildStarter) async throws {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild()
        let script = """
            echo small >&2; read a <&3; x=$(head -c 40000000 /dev/zero | tr '\\0' x)
            echo large >&2; read a <&3
            """
        let child = stage.children.shell(script, on: stage.lane, handler)
        #expect(await handler.lines.wait() == ["small"])
        let small = try #require(child.residentBytes)
        #expect(small > 100_000 && small < 20_000_000)
        #expect(child.send(text: "\n") == .accepted)
        #expect(await handler.lines.wait(2) == ["small", "large"])
        #expect(try #require(child.residentBytes) > small + 39_000_000)
    }

    /// In a process of its own, where no other test opens descriptors.
    @Test func manyChildrenLeaveNoZombiesAndNoDescriptors() async {
        await #expect(processExitsWith: .success) {
            try await ChildTests.startManyChildren(.thisProcess)
            try await ChildTests.startManyChildren(.spawner)
        }
    }

    private static func startManyChildren(_ starter: ChildStarter) async throws {
        let stage = ChildStage(starter)
        let first = TestChild()
        _ = stage.children.shell("exit 0", on: stage.lane, first)
        #expect(await first.ends.wait() == [.exited(status: 0)])
        let before = descriptorCount()
        let handlers = (0..<200).map { _ in TestChild() }
        for (number, handler) in handlers.enumerated() {
            let script = "echo $$ >&2; exit \(number % 100)"
            _ = stage.children.shell(script, on: stage.lane, handler)
            if number % 10 == 9 { _ = await handler.ends.wait() }
        }
        for (number, handler) in handlers.enumerated() {
            #expect(await handler.ends.wait() == [.exited(status: Int32(number % 100))])
            let process = try #require(handler.lines.values.first.flatMap { pid_t($0) })
            // A zombie would still be there.
            #expect(kill(process, 0) == -1)
        }
        // The descriptors of each child would be three or more.
        #expect(descriptorCount() < before + 20)
        stage.stop()
    }

    @Test(arguments: ChildStarter.allCases)
    func stopKillsAllChildrenAndRefusesFurtherOnes(_ starter: ChildStarter) async {
        let stage = ChildStage(starter)
        let handlers = (0..<5).map { _ in TestChild() }
        for handler in handlers {
            _ = stage.children.shell("echo ready >&2; exec sleep 1000", on: stage.lane, handler)
        }
        for handler in handlers { #expect(await handler.lines.wait() == ["ready"]) }
        stage.stopChildren()
        let late = TestChild()
        _ = stage.children.shell("exit 0", on: stage.lane, late)
        for handler in handlers { #expect(await handler.ends.wait() == [.signalled(SIGKILL)]) }
        guard case .notStarted(let error) = await late.ends.wait().first else {
            Issue.record("a child was started after the stop")
            return
        }
        #expect(error.code == .stopping)
        stage.lane.stop()
    }

    /// The parent dies by a signal that it cannot handle, in the middle of its work.
    @Test func deathOfTheParentKillsItsChildren() async throws {
        let parent = try await #require(
            processExitsWith: .failure,
            observing: [\.standardOutputContent]
        ) {
            let children = LinuxChildren(directory: "/bin", trace: RecordingTrace())
            let lane = LinuxLanes(reactorCount: 1).makeLane("scripts")
            let handler = TestChild()
            _ = children.shell("echo $$ >&2; exec sleep 1000", on: lane, handler)
            let line = await handler.lines.wait().first ?? "-"
            print("child \(line)")
            fflush(nil)
            kill(getpid(), SIGKILL)
        }
        let output = String(decoding: parent.standardOutputContent, as: UTF8.self)
        let match = try #require(output.firstMatch(of: /child (\d+)/), "\(output)")
        let process = try #require(pid_t(match.1))
        for _ in 0..<1_000 where isRunning(process: process) {
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(!isRunning(process: process))
        kill(process, SIGKILL)
    }

    /// The thread that asked for a child may end at once: the child is not its own.
    @Test(arguments: ChildStarter.allCases)
    func childSurvivesEndOfTheThreadThatStartedIt(_ starter: ChildStarter) async throws {
        let stage = ChildStage(starter)
        defer { stage.stop() }
        let handler = TestChild()
        let asking = InBackground {
            _ = stage.children.shell(
                "echo ready >&2; read line <&3; echo $line >&2",
                on: stage.lane,
                handler
            )
        }
        try asking.wait()
        #expect(await handler.lines.wait() == ["ready"])
        try await Task.sleep(for: .milliseconds(50))
        #expect(handler.ends.values.isEmpty)
    }
}

private func descriptorCount() -> Int {
    (0..<4_096).count { fcntl(Int32($0), F_GETFD) >= 0 }
}
