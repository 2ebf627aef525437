import Foundation
import Simulation
import Testing

/// Whole clusters, a seed each, in the program that simulates them (Sources/Simulation/README.md).
@Suite struct ClusterTests {
    /// Three nodes, joined and rebalanced over, used by four clients: all is read that was written,
    /// and all copies are equal in the end.
    @Test func aClusterThatNothingHappensToKeepsAll() throws {
        let (status, lines) = try simulate("--seed", "1", "--seeds", "20", "--workload", "smoke")
        #expect(status == 0, "\(lines)")
        #expect(lines.count == 20)
        for line in lines {
            let words = line.split(separator: " ")
            let operations = words.firstIndex(of: "operations,").map { Int(words[$0 - 1]) ?? 0 }
            #expect(operations ?? 0 > 300, "\(line)")
            #expect(line.hasSuffix("green"), "\(line)")
        }
    }

    /// Faults and all: whatever it comes to, it comes to it again.
    @Test func aSeedReplaysToTheByteInAnotherProcess() throws {
        let options = ["--seed", "3", "--transcript"]
        let (one, other) = (try simulate(options), try simulate(options))
        #expect(one.lines == other.lines)
        #expect(one.lines.count > 20)
        let next = try simulate("--seed", "4", "--workload", "smoke")
        #expect(next.lines != (try simulate("--seed", "5", "--workload", "smoke")).lines)
    }

    /// Nothing happens to these, so that they are green; and too few operations of too few kinds are
    /// made, which only a swarm of the usual workload is told of.
    @Test func aSwarmSaysWhatWasDone() throws {
        let (status, lines) = try simulate("--seeds", "1-3", "--workload", "smoke")
        #expect(status == 0, "\(lines)")
        #expect(lines.first == "3 seeds, 0 red")
        #expect(lines.contains { $0.hasPrefix("  operations ") && $0.contains("set ") })
        #expect(lines.contains { $0.contains("foundWrites ") })
        // A swarm says the same every time.
        #expect(try simulate("--seeds", "1-3", "--workload", "smoke").lines == lines)
    }

    /// Harmless faults and safe actions alone: nothing that was acknowledged may be lost, and every
    /// key has one order of operations that explains it.
    @Test func whereNothingDiesNothingIsLost() throws {
        let options = ["--seed", "6", "--faults", "harmless", "--tally"]
        let (status, lines) = try simulate(options)
        #expect(status == 0, "\(lines)")
        let tally = lines.first { $0.hasPrefix("tally ") }.flatMap { Tally(line: $0.dropFirst(6)) }
        #expect(tally?[.check, "linearizedKeys"] ?? 0 > 100)
        #expect(tally?[.check, "linearizedOperations"] ?? 0 > 1_000)
        #expect(tally?[.check, "lostWrites"] == 0)
    }

    /// Nodes that take vBuckets over are cut off, failed over by hand, and said to come back: for the
    /// rebalance that runs they are gone, and it does not wait for what they have to say.
    @Test func whoIsToComeBackKeepsNoRebalanceWaiting() throws {
        let options = ["--seeds", "2-5", "--workload", "three-copies", "--faults", "cutOff"]
        let (status, lines) = try simulate(options)
        #expect(status == 0, "\(lines)")
        #expect(lines.first == "4 seeds, 0 red")
        let changes = lines.first { $0.hasPrefix("  changes ") }
        #expect(changes?.contains("failover ") == true, "\(lines)")
    }

    /// Flushes meet, buckets are deleted while nodes are cut off or while they are flushed, and fewer
    /// copies are asked for in the middle of a rebalance.
    @Test(arguments: [
        ("9-9", "bucket-storm"), ("12-14", "bucket-storm"), ("33-33", "bucket-storm"),
        ("1097-1097", "standard"), ("5700-5700", "standard"), ("464-464", "standard"),
        ("5591-5591", "standard"), ("1988-1988", "standard"), ("305-305", "failover-storm"),
        ("330-330", "failover-storm"), ("5012-5012", "standard"),
    ])
    func whatWasAskedForIsDoneWhenThatIsSaid(_ seeds: String, _ workload: String) throws {
        let (_, lines) = try simulate("--seeds", seeds, "--workload", workload)
        #expect(lines.first?.hasSuffix(" 0 red") == true, "\(lines)")
    }

    @Test(arguments: Story.names)
    func whatSeedsFoundIsNotSoAnyMore(_ story: String) throws {
        let (status, lines) = try simulate("--story", story)
        #expect(status == 0, "\(lines)")
        #expect(lines == ["story \(story)  green"])
    }

    @Test func whoAsksNonsenseIsTold() throws {
        let nonsense = [
            [], ["--seed", "x"], ["--seed", "1", "--faults", "rain"], ["--sed", "1"],
            ["--seed", "1", "--faults"], ["--seed", "18446744073709551615", "--seeds", "2"],
            ["--story", "invited-and-given-up", "--nodes", "4"], ["--seeds", "5-1"],
            ["--seeds", "5"], ["--swarm", "0"],
            ["--seed", "1", "--seeds", "2-3"],
            ["--story", "none"], ["--story", "invited-and-given-up", "--seed", "1"],
            ["--swarm", "1", "--seeds", "1-2"], ["--seed", "1", "--workload", "idle"],
        ]
        for options in nonsense {
            #expect(try simulate(options).status == 2, "\(options)")
        }
    }

    private func simulate(_ options: String...) throws -> (status: Int32, lines: [Substring]) {
        try simulate(options)
    }

    private func simulate(_ options: [String]) throws -> (status: Int32, lines: [Substring]) {
        let program = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
            .deletingLastPathComponent().appending(path: "divan-simulator")
        let process = Process()
        process.executableURL = program
        process.arguments = options
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n")
        return (process.terminationStatus, lines)
    }
}
