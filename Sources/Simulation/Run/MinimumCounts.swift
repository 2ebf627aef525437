/// The minimum counts of a swarm; below them a green result proves nothing.
///
/// Each floor is between half and a tenth of the count over a hundred seeds of `standard`, lower
/// for kinds that occur in bursts, so that chance alone does not fall below it. A fault that is
/// never drawn, an action that is always refused, and a stalled workload do.
package enum MinimumCounts {
    package struct Floor: Hashable, Sendable {
        package let name: Tally.Name
        /// The minimum in a hundred seeds.
        package let count: Int
        package let reason: String
    }

    /// A count below its floor.
    package struct Shortfall: Hashable, Sendable, CustomStringConvertible {
        package let floor: Floor
        package let seeds: Int
        package let found: Int
        package let wanted: Int

        package var description: String {
            "\(floor.name): \(found) in \(seeds) seeds, minimum \(wanted): \(floor.reason)"
        }
    }

    package static let table: [Floor] = operations + faults + actions + changes + checks

    /// The minimum size of a swarm: each kind is in one seed of five or of twelve, so a smaller
    /// swarm may miss a kind by chance.
    package static let seedsMin = 50

    /// The counts below their floor in a swarm of `seeds` seeds; empty if the swarm is too small.
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
            ("set", 40_000, "clients are stalled"),
            ("get", 50_000, "clients are stalled"),
            ("delete", 10_000, "no tombstones are made"),
            ("add", 3_000, "NOT_FOUND and EXISTS constrain nothing"),
            ("replace", 3_000, "NOT_FOUND and EXISTS constrain nothing"),
            ("compareAndSet", 1_200, "no client compares and sets"),
            ("increment", 8_000, "only counters show a write that was applied twice"),
            ("attributes", 3_000, "no client writes extended attributes"),
            ("touch", 500, "no document with attributes is touched"),
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
        Operator.Action.usual.map { ($0.rawValue, 4, "the action is never requested") }
    )

    private static let changes = rows(
        .change,
        [
            ("failover", 30, "no node is failed over, or no failover completes"),
            ("promotion", 2_000, "restarts and failovers promote no copy"),
            ("takeover", 1_200, "no rebalance hands a vBucket over"),
            ("replicaMove", 1_000, "no rebalance moves a replica"),
            ("rebalance", 150, "no rebalance is completed"),
            ("clientCrash", 300, "no client ends during an operation"),
            ("restart", 350, "no process ends and restarts"),
            ("flush", 2, "no bucket is flushed"),
            ("design", 20, "no design document is put or deleted"),
            ("droppedCursor", 40_000, "no cursor is dropped"),
            ("ejectedDocument", 2_000, "no document is ejected, or memory is never short"),
            ("departure", 5, "no node leaves the cluster"),
            ("arrival", 5, "no node joins the cluster again"),
        ]
    )

    private static let checks = rows(
        .check,
        [
            ("comparedCopies", 35_000, "histories of copies are not compared"),
            ("foundWrites", 45_000, "acknowledged writes are not searched at the end"),
            ("linearizedKeys", 1_500, "no key is checked for linearizability"),
            ("linearizedOperations", 40_000, "linearized keys have hardly any operations"),
            ("viewAnswers", 800, "no view is queried"),
            ("freshViewAnswers", 200, "hardly any answer of a view is complete and fresh"),
            ("finalViews", 300, "views are not compared with the final documents"),
            ("indexFiles", 100, "no index file is checked"),
            ("consumerChanges", 20_000, "no outside consumer follows a bucket"),
            ("consumerDeletions", 2_000, "outside consumers see no deletions"),
            ("consumerExpirations", 500, "outside consumers see no expirations"),
            ("consumerResumes", 2_000, "outside consumers never continue"),
            ("consumerMoves", 100, "no stream of an outside consumer moves"),
            ("consumerSlow", 100, "no outside consumer is slow"),
            ("consumerRollbacks", 10, "no outside consumer has to roll back"),
            ("consumerComparisons", 3_000, "outside consumers are not compared with copies"),
            ("finalConsumers", 200, "outside consumers are not compared at the end"),
            ("attributeWrites", 3_000, "acknowledged attributes are not searched in copies"),
            ("expandedMacros", 10_000, "hardly any macro is checked in the version that has it"),
            ("attributeSightings", 20_000, "copies and disks are not compared"),
            ("attributeChanges", 1_000, "feeds send no documents with attributes"),
            ("attributeDisks", 500, "attributes on disk are not compared"),
            ("intrusion", 100, "no copied key is tried"),
            ("impersonation", 5, "no process answers for a node that is down"),
            ("forgedOrder", 40, "no command without a permission is proposed"),
            ("checkedSecret", 3, "no secret of a removed node is compared"),
            ("promisedKeys", 400, "no durability level is checked in seeds with losses"),
        ]
    )
}
