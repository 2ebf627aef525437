import Bytes
import ClusterService
import Consensus
import Persistence
import Testing
import Vocabulary

/// Random walks of groups of drivers on real files, with crashes and network faults.
@Suite struct RaftWalkTests {
    struct Tally {
        var answered = 0
        var elections = 0
        var restarts = 0
    }

    @Test func proposalsAreAppliedExactlyOnceInRandomWalks() throws {
        var tally = Tally()
        for seed in UInt64(1)...40 {
            let found = try walk(seed: seed, nodes: seed % 3 == 0 ? 5 : 3, tally: &tally)
            #expect(found == [], "seed \(seed)")
            if !found.isEmpty { return }
        }
        // Walks without events prove nothing.
        #expect(tally.answered > 1_000, "\(tally)")
        #expect(tally.elections > 120, "\(tally)")
        #expect(tally.restarts > 150, "\(tally)")
    }

    private func walk(seed: UInt64, nodes: UInt16, tally: inout Tally) throws -> [String] {
        let world = RaftWorld(seed: seed)
        let group = try RaftGroup(world, nodes: nodes, ballast: 150_000) { settings in
            settings.snapshotEntries = 25
            settings.raft.entriesKept = 4
        }
        guard group.grow(to: Array(1...nodes)) else { return ["never grew"] }
        world.core.withLock { core in
            core.loss = seed % 2 == 0 ? 12 : 0
            core.doubling = 12
            core.delayMax = seed % 4 == 0 ? 60_000_000 : 5_000_000
        }
        var asked = 0
        for _ in 0..<150 {
            let number = UInt16(1 + world.below(Int(nodes)))
            switch world.below(16) {
            case 0..<9:
                guard group.drivers[NodeNumber(number)] != nil else { continue }
                group.propose(number, "w\(asked)")
                asked += 1
            case 9: group.kill(NodeNumber(number))
            case 10:
                try group.restart(NodeNumber(number))
                tally.restarts += 1
            case 11: group.isolate(number)
            case 12: group.heal()
            case 13: group.drivers[NodeNumber(number)]?.transfer(to: NodeNumber(1))
            case 14:
                let pages = world.below(2) == 0 ? 1 : 0
                try group.drivers[NodeNumber(number)]?.store.limit(pages: pages)
            default: world.run(milliseconds: UInt64(world.below(900)))
            }
            for _ in 0..<world.below(40) { world.step() }
        }
        group.heal()
        world.core.withLock { $0.loss = 0 }
        for number in 1...nodes {
            let node = NodeNumber(number)
            if group.drivers[node] == nil { try group.start(node) }
            try group.driver(number).store.limit(pages: 0)
        }
        guard group.converge() else { return ["never converged"] }
        tally.answered += group.core.withLock { core in core.answers.count { $0.outcome != nil } }
        tally.elections += group.history.elections
        return group.violations() + (try logs(group, nodes))
    }

    /// Checks log matching on disk: entries of the same index and term have the same history.
    private func logs(_ group: RaftGroup, _ nodes: UInt16) throws -> [String] {
        var seen: [ControlPosition: ControlEntry] = [:]
        var before: [ControlPosition: UInt64] = [:]
        var found: [String] = []
        for number in 1...nodes {
            guard let contents = try group.driver(number).store.load() else { continue }
            var term = contents.base.term
            for entry in contents.entries {
                if let known = seen[entry.position], known != entry {
                    found.append("n\(number) has another entry at \(entry.position)")
                }
                if let known = before[entry.position], known != term {
                    found.append("n\(number) has another past at \(entry.position)")
                }
                seen[entry.position] = entry
                before[entry.position] = term
                term = entry.position.term
            }
        }
        return found
    }

    @Test func loneNodeSurvivesKillAtAnyMoment() throws {
        for seed in UInt64(1)...20 {
            let world = RaftWorld(seed: seed)
            let group = try RaftGroup(world, nodes: 1, ballast: 70_000) { settings in
                settings.snapshotEntries = 7
                settings.raft.entriesKept = 2
            }
            var asked = 0
            for _ in 0..<40 {
                for _ in 0..<world.below(5) {
                    group.propose(1, "k\(asked)")
                    asked += 1
                }
                for _ in 0..<world.below(12) { world.step() }
                try group.restart(NodeNumber(1))
                #expect(group.violations() == [], "seed \(seed)")
            }
            #expect(group.lines(1).count > 20, "seed \(seed)")
        }
    }
}
