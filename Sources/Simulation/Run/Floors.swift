/// What a swarm has to have done at least, or its green says nothing.
///
/// Each floor is a half to a tenth of what was counted over a hundred seeds of `standard`, the less
/// the more it comes in bursts, so that chance alone does not fall below it; a fault that is never
/// drawn, an action that is always refused, and a workload that stands still all do.
package enum Floors {
    package struct Floor: Hashable, Sendable {
        package let name: Tally.Name
        /// In a hundred seeds.
        package let count: Int
        package let reason: String
    }

    /// What fell short.
    package struct Shortfall: Hashable, Sendable, CustomStringConvertible {
        package let floor: Floor
        package let seeds: Int
        package let found: Int
        package let wanted: Int

        package var description: String {
            "\(floor.name): \(found) in \(seeds) seeds, \(wanted) at least: \(floor.reason)"
        }
    }

    package static let table: [Floor] = operations + faults + actions + changes + checks

    /// A swarm of fewer may miss a kind by chance: each is in one seed of five, or of twelve.
    package static let seedsMin = 50

    /// What stayed below its floor in a swarm of so many seeds.
    package static func shortfalls(_ tally: Tally, seeds: Int) -> [Shortfall] {
        guard seeds >= seedsMin else { return [] }
        return table.compactMap { floor in
            let wanted = floor.count * seeds / 100
            let found = tally[floor.name]
            guard found < wanted else { return nil }
            return Shortfall(floor: floor, seeds: seeds, found: found, wanted: wanted)
        }
    }

    private static func rows(_ group: Tally.Group, _ rows: [(String, Int, String)]) -> [Floor] {
        rows.map { Floor(name: Tally.Name(group, $0.0), count: $0.1, reason: $0.2) }
    }

    private static let operations = rows(
        .operation,
        [
            ("set", 40_000, "clients stand still"),
            ("get", 50_000, "clients stand still"),
            ("delete", 10_000, "tombstones are made by nobody"),
            ("add", 3_000, "NOT_FOUND and EXISTS constrain nothing"),
            ("replace", 3_000, "NOT_FOUND and EXISTS constrain nothing"),
            ("compareAndSet", 1_200, "nobody compares and sets"),
            ("increment", 8_000, "a counter is what shows a write applied twice"),
        ]
    )

    private static let faults = rows(
        .fault,
        Chaos.Kind.allCases.filter { !$0.isForWorkload }.map { kind in
            (kind.rawValue, kind == .clockFreeze ? 3 : 20, "the fault is never drawn")
        }
    )

    private static let actions = rows(
        .action,
        Operator.Action.usual.map { ($0.rawValue, 4, "the action is never asked for") }
    )

    private static let changes = rows(
        .change,
        [
            ("failover", 30, "nodes are failed over in no seed, or no failover comes to its end"),
            ("promotion", 2_000, "restarts and failovers promote nobody"),
            ("takeover", 1_200, "no rebalance hands anything over"),
            ("replicaMove", 1_000, "no rebalance moves a replica"),
            ("rebalance", 150, "no rebalance is completed"),
            ("clientCrash", 300, "no client ends amid what it does"),
            ("restart", 350, "no process ends and comes back"),
            ("flush", 2, "no bucket is emptied"),
            ("droppedCursor", 40_000, "no stream loses its place in memory"),
            ("ejectedDocument", 2_000, "no document leaves memory, or none is short of it"),
            ("departure", 5, "no node leaves the cluster"),
            ("arrival", 5, "no node comes back into the cluster"),
        ]
    )

    private static let checks = rows(
        .check,
        [
            ("comparedCopies", 35_000, "histories of copies are not compared"),
            ("foundWrites", 45_000, "acknowledged writes are not looked for in the end"),
            ("linearizedKeys", 1_500, "no key is checked for linearizability"),
            ("linearizedOperations", 40_000, "what is linearized has hardly any operations"),
            ("promisedKeys", 400, "where something may be lost no level is held to its promise"),
        ]
    )
}
