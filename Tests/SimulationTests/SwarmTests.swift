import Foundation
import LinuxPlatform
import Testing

/// Many seeds, each in a process of its own.
@Suite struct SwarmTests {
    private static let smoke = ["--workload", "smoke"]

    /// Results come in the order of the seeds, however many run at a time.
    @Test(arguments: [1, 3])
    func seedsOfASwarmPrintTheSameAsAlone(jobs: Int) throws {
        let alone = try (1...4).flatMap { seed in
            try Simulator.run(["--seed", "\(seed)", "--transcript", "--tally"] + SwarmTests.smoke)
                .lines
        }
        let count = ["--seed", "1", "--seeds", "4", "--jobs", "\(jobs)", "--transcript", "--tally"]
        let (status, lines) = try Simulator.run(count + SwarmTests.smoke)
        #expect(status == 0)
        #expect(lines == alone)
        #expect(lines.filter { $0.hasPrefix("seed ") && $0.hasSuffix("green") }.count == 4)
        #expect(lines.filter { $0.hasPrefix("tally ") }.count == 4)
    }

    @Test func swarmOutputIsIndependentOfTheNumberOfJobs() throws {
        let options = ["--seeds", "1-5"] + SwarmTests.smoke
        let one = try Simulator.run(options)
        #expect(one.lines.first == "5 seeds, 0 red")
        #expect(try Simulator.run(options + ["--jobs", "3"]).lines == one.lines)
    }

    /// The rest of the seeds still run, and the command for the first red one is printed.
    @Test func seedsBeyondCPULimitFailAndPrintTheirRepetition() throws {
        let options = ["--workload", "smoke", "--faults", "none", "--nodes", "3"]
        let repetition =
            "  the first red one alone: divan-simulator --seed 7 " + options.joined(separator: " ")
        let custom = ["--seed", "7", "--seeds", "2", "--limit", "0.001"]
        let (status, lines) = try Simulator.run(custom + options)
        #expect(status == 1)
        for seed in 7...8 {
            let line = lines.first { $0.hasPrefix("seed \(seed)  did not finish: it used ") }
            #expect(line?.hasSuffix("; its limit is 0.001 s (--limit)") == true, "\(lines)")
        }
        #expect(lines.last == Substring(repetition))

        let swarm = try Simulator.run(["--seeds", "7-8", "--limit", "0.001"] + options)
        #expect(swarm.status == 1)
        #expect(swarm.lines.contains("2 seeds, 2 red: 7, 8"))
        #expect(swarm.lines.contains(Substring(repetition)))
    }

    /// The children are stopped, so that none ends by itself.
    @Test(arguments: [SIGTERM, SIGKILL])
    func endOfSwarmEndsItsSeedProcesses(signal: Int32) throws {
        let swarm = ProgramRun(
            LimitedProgram(
                Simulator.path,
                ["--seed", "1", "--seeds", "100000", "--jobs", "2"],
                cpuNanosecondsMax: 600_000_000_000,
                nanosecondsMax: 600_000_000_000
            )
        )
        let parent = try #require(swarm.process)
        var stopped: Set<Int32> = []
        defer { for process in stopped { kill(process, SIGKILL) } }
        let hasBoth = waits {
            // A child that has run for so long has bound itself to its parent.
            for child in Processes.children(of: parent)
            where Processes.nanoseconds(of: child) > 1_000_000_000 && kill(child, SIGSTOP) == 0 {
                stopped.insert(child)
            }
            stopped = stopped.filter(Processes.isAlive)
            return stopped.count == 2
        }
        try #require(hasBoth, "the swarm runs two seeds at a time")
        #expect(kill(parent, signal) == 0)
        #expect(ProgramRun.waitForEnds(of: [swarm]) == [0])
        #expect(swarm.report?.end == .signalled(signal))
        #expect(waits { !stopped.contains(where: Processes.isAlive) }, "seeds outlive their swarm")
    }

    /// Whether the condition holds within a minute.
    private func waits(_ condition: () -> Bool) -> Bool {
        for _ in 0..<6_000 {
            if condition() { return true }
            usleep(10_000)
        }
        return condition()
    }
}

/// What /proc has about processes.
private enum Processes {
    /// The state and the parent's number; nil if there is no such process.
    private static func status(_ process: Int32) -> (state: Substring, parent: Int32)? {
        let path = "/proc/\(process)/stat"
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
        // The name of the program, in parentheses, may have any characters.
        let words = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ")
        guard words.count > 2, let parent = Int32(words[2]) else { return nil }
        return (words[1], parent)
    }

    static func children(of parent: Int32) -> [Int32] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return names.compactMap { Int32($0) }.filter { status($0)?.parent == parent }
    }

    /// A process that nothing waits for stays as a zombie.
    static func isAlive(_ process: Int32) -> Bool {
        guard let (state, _) = status(process) else { return false }
        return state != "Z" && state != "X"
    }

    /// Processor time that the process has used; 0 if it has ended.
    static func nanoseconds(of process: Int32) -> UInt64 {
        var clock = clockid_t()
        var time = timespec()
        guard clock_getcpuclockid(process, &clock) == 0, clock_gettime(clock, &time) == 0 else {
            return 0
        }
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
