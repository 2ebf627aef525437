import Simulation
import Testing

/// Simulated clusters, one seed each, in the simulator's program (docs/design/simulation.md).
@Suite struct ClusterTests {
    /// Three nodes join, rebalance, and serve four clients: every write is read, and all copies are
    /// equal at the end.
    @Test func clusterWithoutFaultsKeepsEveryWrite() throws {
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

    /// A run with faults is reproducible; seed 4 has views, seed 5 outside consumers.
    @Test(arguments: ["3", "4", "5"])
    func seedHasTheSameTranscriptInAnotherProcess(_ seed: String) throws {
        let options = ["--seed", seed, "--transcript"]
        let (one, other) = (try simulate(options), try simulate(options))
        #expect(one.lines == other.lines)
        #expect(one.lines.count > 20)
        let next = try simulate("--seed", "4", "--workload", "smoke")
        #expect(next.lines != (try simulate("--seed", "5", "--workload", "smoke")).lines)
    }

    /// The seeds have no faults and are green; they have too few operations of too few kinds, which
    /// only a swarm of the standard workload reports.
    @Test func swarmPrintsItsCounts() throws {
        let (status, lines) = try simulate("--seeds", "1-3", "--workload", "smoke")
        #expect(status == 0, "\(lines)")
        #expect(lines.first == "3 seeds, 0 red")
        #expect(lines.contains { $0.hasPrefix("  operations ") && $0.contains("set ") })
        #expect(lines.contains { $0.contains("foundWrites ") })
        // The output of a swarm is reproducible.
        #expect(try simulate("--seeds", "1-3", "--workload", "smoke").lines == lines)
    }

    /// Nodes with views: answers are those of the documents, also while vBuckets move, while script
    /// processes end, and after crashes.
    @Test(arguments: ["harmless", "crash"])
    func viewsAnswerFromTheVisibleDocuments(_ faults: String) throws {
        let options = ["--seed", "1", "--seeds", "3", "--workload", "views", "--faults", faults]
        let (status, lines) = try simulate(options + ["--tally"])
        #expect(status == 0, "\(lines)")
        let tallies = lines.filter { $0.hasPrefix("tally ") }.compactMap {
            Tally(line: $0.dropFirst(6))
        }
        #expect(tallies.count == 3)
        for tally in tallies {
            #expect(tally[.check, "viewAnswers"] > 50)
            #expect(tally[.check, "freshViewAnswers"] > 5)
            #expect(tally[.check, "viewRows"] > 500)
            #expect(tally[.check, "finalViews"] > 10)
            #expect(tally[.check, "finalViewsAsTheyAre"] > 5)
            #expect(tally[.check, "indexFiles"] > 2)
        }
    }

    /// Outside consumers follow both buckets over connections: they have what the active copies have,
    /// also while vBuckets move, when they are slow or disconnected, and after crashes.
    @Test(arguments: ["none", "harmless", "crash"])
    func externalConsumersReceiveEveryChangeOfActiveCopies(_ faults: String) throws {
        let options = ["--seed", "1", "--seeds", "3", "--workload", "consumer", "--faults", faults]
        let (status, lines) = try simulate(options + ["--tally"])
        #expect(status == 0, "\(lines)")
        let tallies = lines.filter { $0.hasPrefix("tally ") }.compactMap {
            Tally(line: $0.dropFirst(6))
        }
        #expect(tallies.count == 3)
        for tally in tallies {
            #expect(tally[.check, "consumerChanges"] > 500)
            #expect(tally[.check, "consumerDeletions"] > 50)
            #expect(tally[.check, "consumerResumes"] > 50)
            #expect(tally[.check, "consumerSlow"] > 3)
            #expect(tally[.check, "consumerComparisons"] > 50)
            #expect(tally[.check, "finalConsumers"] > 10)
        }
    }

    /// Clients write attributes with macros: copies, disks and feeds have the same bytes, also while
    /// vBuckets move, and after crashes.
    @Test(arguments: ["none", "harmless", "crash"])
    func allSourcesHaveTheSameAttributes(_ faults: String) throws {
        let options = [
            "--seed", "1", "--seeds", "2", "--workload", "attributes", "--faults", faults,
        ]
        let (status, lines) = try simulate(options + ["--tally"])
        #expect(status == 0, "\(lines)")
        let tallies = lines.filter { $0.hasPrefix("tally ") }.compactMap {
            Tally(line: $0.dropFirst(6))
        }
        #expect(tallies.count == 2)
        for tally in tallies {
            #expect(tally[.operation, "attributes"] > 100)
            #expect(tally[.check, "attributeWrites"] > 100)
            #expect(tally[.check, "expandedMacros"] > 500)
            #expect(tally[.check, "attributeSightings"] > 1_000)
            #expect(tally[.check, "attributeChanges"] > 100)
            #expect(tally[.check, "attributeDisks"] > 10)
        }
    }

    /// Only harmless faults and safe actions: no acknowledged write may be lost, and every key is
    /// linearizable.
    @Test func clusterWithHarmlessFaultsLosesNoWrite() throws {
        let options = ["--seed", "6", "--faults", "harmless", "--tally"]
        let (status, lines) = try simulate(options)
        #expect(status == 0, "\(lines)")
        let tally = lines.first { $0.hasPrefix("tally ") }.flatMap { Tally(line: $0.dropFirst(6)) }
        #expect(tally?[.check, "linearizedKeys"] ?? 0 > 100)
        #expect(tally?[.check, "linearizedOperations"] ?? 0 > 1_000)
        #expect(tally?[.check, "lostWrites"] == 0)
    }

    /// Nodes that take vBuckets over are cut off, failed over by hand, and marked for recovery: the
    /// running rebalance does not wait for their reports.
    @Test func rebalanceDoesNotWaitForARecoveringNode() throws {
        let options = ["--seeds", "2-5", "--workload", "three-copies", "--faults", "cutOff"]
        let (status, lines) = try simulate(options)
        #expect(status == 0, "\(lines)")
        #expect(lines.first == "4 seeds, 0 red")
        let changes = lines.first { $0.hasPrefix("  changes ") }
        #expect(changes?.contains("failover ") == true, "\(lines)")
    }

    /// Flushes overlap, buckets are deleted during a flush or while nodes are cut off, and the
    /// replica count is lowered during a rebalance.
    @Test(arguments: [
        ("9-9", "bucket-storm"), ("12-14", "bucket-storm"), ("33-33", "bucket-storm"),
        ("1097-1097", "standard"), ("5700-5700", "standard"), ("464-464", "standard"),
        ("5591-5591", "standard"), ("1988-1988", "standard"), ("305-305", "failover-storm"),
        ("330-330", "failover-storm"), ("5012-5012", "standard"), ("768-768", "standard"),
    ])
    func acknowledgedBucketRequestIsDone(_ seeds: String, _ workload: String) throws {
        let (_, lines) = try simulate("--seeds", seeds, "--workload", workload)
        #expect(lines.first?.hasSuffix(" 0 red") == true, "\(lines)")
    }

    @Test(arguments: Story.names)
    func storyHasNoViolation(_ story: String) throws {
        let (status, lines) = try simulate("--story", story)
        #expect(status == 0, "\(lines)")
        #expect(lines == ["story \(story)  green"])
    }

    @Test func invalidOptionsPrintTheUsage() throws {
        let invalid = [
            [], ["--seed", "x"], ["--seed", "1", "--faults", "rain"], ["--sed", "1"],
            ["--seed", "1", "--faults"], ["--seed", "18446744073709551615", "--seeds", "2"],
            ["--story", "invited-and-given-up", "--nodes", "4"], ["--seeds", "5-1"],
            ["--seeds", "5"], ["--swarm", "0"],
            ["--seed", "1", "--seeds", "2-3"],
            ["--story", "none"], ["--story", "invited-and-given-up", "--seed", "1"],
            ["--swarm", "1", "--seeds", "1-2"], ["--seed", "1", "--workload", "idle"],
            ["--seed", "1", "--jobs", "2"], ["--seed", "1", "--limit", "60"],
            ["--seeds", "1-2", "--jobs", "0"], ["--seeds", "1-2", "--jobs", "257"],
            ["--seeds", "1-2", "--limit", "0"], ["--seeds", "1-2", "--limit", "nan"],
            ["--seed", "1", "--seeds", "0"], ["--story", "invited-and-given-up", "--jobs", "1"],
        ]
        for options in invalid {
            #expect(try simulate(options).status == 2, "\(options)")
        }
    }

    private func simulate(_ options: String...) throws -> (status: Int32, lines: [Substring]) {
        try simulate(options)
    }

    private func simulate(_ options: [String]) throws -> (status: Int32, lines: [Substring]) {
        try Simulator.run(options)
    }
}
