package import Vocabulary

/// Decides whether silent nodes are failed over automatically.
///
/// The leader evaluates it ten times a second and on every change; evaluating has no side effects.
/// It estimates data loss from the last reports of copies. The seals that follow give exact
/// positions. A failover that they show to be unsafe is aborted, and the sealed copies are
/// released.
///
/// - A node is down if the leader and, by recent beats, a majority of all active nodes have
///   received nothing from it for the whole timeout.
/// - A process that is gone is down earlier: after a fifth of the timeout, and not before
///   `Limits.goneMilliseconds`, if the machine of the node still refuses connections of the leader and
///   of a majority then. A restart within that time changes nothing, and a machine that is silent
///   has the whole timeout.
/// - Nodes that became silent together are failed over together.
/// - Every reason against a failover is listed, not only the first.
package enum AutoFailoverPolicy {
    /// The leader's next action.
    package enum Decision: Hashable, Sendable {
        case nothing
        case wait(NodeNumber, untilNanoseconds: UInt64)
        case failOver([NodeNumber], silentNanoseconds: UInt64)
        case blocked([NodeNumber], [FailoverBlocker])
    }

    private static let together = Limits.suspectMilliseconds * 1_000_000

    /// The present decision; `.wait` if the passing of time alone can change it.
    package static func decide(
        _ settings: AutoFailoverSettings,
        _ situation: FailoverSituation,
        _ table: FailureTable,
        now: UInt64
    ) -> Decision {
        let bound = bound(settings)
        let timeout = bound.silentNanoseconds
        let others = situation.nodes.filter { $0 != table.node }
        let silences = others.map { (node: $0, silence: table.silence(of: $0, now: now)) }
        let gone = others.filter { isGone($0, by: bound, situation, table: table, now: now) }
        let down = silences.filter { $0.silence >= timeout || gone.contains($0.node) }
        guard let shortest = down.map(\.silence).min() else {
            return waiting(silences, timeout: timeout, table, now: now)
        }
        if let until = graceEnd(situation, table), now < until {
            return .wait(down[0].node, untilNanoseconds: until)
        }
        // Wait for nodes that became silent at the same time and have not timed out yet.
        let late = silences.filter { silence in
            silence.silence + together >= shortest && table.isSuspect(silence.node, now: now)
                && !down.contains { $0.node == silence.node }
        }
        if let next = late.min(by: { $0.silence > $1.silence }) {
            return .wait(next.node, untilNanoseconds: now + timeout - next.silence)
        }
        let nodes = down.map(\.node)
        let reasons =
            sightReasons(nodes, by: bound, situation, table: table, now: now)
            + reasons(nodes, settings: settings, situation, table: table, now: now)
        if !reasons.isEmpty { return .blocked(nodes, reasons) }
        return .failOver(nodes, silentNanoseconds: shortest)
    }

    private static func bound(_ settings: AutoFailoverSettings) -> FailureTable.SilenceBound {
        let timeout = UInt64(settings.timeoutSeconds) * 1_000_000_000
        let gone = max(Limits.goneMilliseconds * 1_000_000, timeout / 5)
        return FailureTable.SilenceBound(silentNanoseconds: timeout, refusedNanoseconds: gone)
    }

    /// Whether the leader and a majority find the silence long enough, most of all by refused connections.
    ///
    /// Refusals of fewer nodes change nothing: a device on their path may be their source.
    private static func isGone(
        _ node: NodeNumber,
        by bound: FailureTable.SilenceBound,
        _ situation: FailoverSituation,
        table: FailureTable,
        now: UInt64
    ) -> Bool {
        let seers = table.seers(of: node, silentFor: bound, among: situation.nodes, now: now)
        return seers.contains(table.node) && seers.count >= situation.nodesNeeded
    }

    private static func waiting(
        _ silences: [(node: NodeNumber, silence: UInt64)],
        timeout: UInt64,
        _ table: FailureTable,
        now: UInt64
    ) -> Decision {
        let suspects = silences.filter { table.isSuspect($0.node, now: now) }
        guard let longest = suspects.map(\.silence).max(),
            let next = suspects.first(where: { $0.silence == longest })
        else { return .nothing }
        return .wait(next.node, untilNanoseconds: now + timeout - longest)
    }

    /// A leader that has not received beats from a majority may itself be cut off: it waits until
    /// this time.
    ///
    /// Nil if it has received them.
    private static func graceEnd(
        _ situation: FailoverSituation,
        _ table: FailureTable
    ) -> UInt64? {
        let heard = situation.nodes.count { table.hasHeard(of: $0) }
        if heard >= situation.nodesNeeded { return nil }
        return situation.leaderSinceNanoseconds + Limits.leaderGraceMilliseconds * 1_000_000
    }

    // MARK: Reasons against a failover

    private static func sightReasons(
        _ nodes: [NodeNumber],
        by bound: FailureTable.SilenceBound,
        _ situation: FailoverSituation,
        table: FailureTable,
        now: UInt64
    ) -> [FailoverBlocker] {
        var found: [FailoverBlocker] = []
        for node in nodes {
            let seers = table.seers(
                of: node,
                silentFor: bound,
                among: situation.nodes,
                now: now
            )
            if seers.count >= situation.nodesNeeded { continue }
            found.append(
                .notSeenDownByMajority(
                    node: node,
                    seers: seers,
                    need: situation.nodesNeeded
                )
            )
        }
        return found
    }

    private static func reasons(
        _ nodes: [NodeNumber],
        settings: AutoFailoverSettings,
        _ situation: FailoverSituation,
        table: FailureTable,
        now: UInt64
    ) -> [FailoverBlocker] {
        var found: [FailoverBlocker] = []
        let failing = Set(nodes)
        let left = situation.members.filter { !failing.contains($0.node) }
        let voters = situation.members.filter(\.isVoter)
        let reached = voters.count { !table.isSuspect($0.node, now: now) }
        let group = wholeGroup(failing, situation)
        let weight = group == nil ? nodes.count : 1

        if !settings.isEnabled { found.append(.disabled) }
        let countMax = Int(settings.countMax)
        if situation.count >= countMax {
            found.append(.countReached(count: situation.count, max: countMax))
        }
        if weight > 1, situation.count + weight > countMax {
            found.append(.moreThanOneDown(nodes))
        }
        if reached < voters.count / 2 + 1 {
            found.append(.noQuorum(have: reached, need: voters.count / 2 + 1))
        }
        if voters.count < Limits.autoFailoverVotersMin {
            found.append(.tooFewNodes(voters: voters.count))
        }
        if left.isEmpty { found.append(.lastNode) }
        for name in Set(situation.members.map(\.group)).sorted()
        where situation.groupsHit.contains(name) {
            let isEmptied = !left.contains { $0.group == name }
            if isEmptied { found.append(.wouldEmptyGroup(name)) }
        }
        if situation.isMembershipChanging { found.append(.membershipChanging) }
        if now < situation.coolingUntilNanoseconds {
            found.append(.coolingDown(untilNanoseconds: situation.coolingUntilNanoseconds))
        }
        for bucket in situation.buckets {
            found += bucket.obstacles(failing: failing)
        }
        return found
    }

    /// The server group that consists of exactly these nodes; nil if there is none, for a single
    /// node, or if there is only one group.
    private static func wholeGroup(
        _ nodes: Set<NodeNumber>,
        _ situation: FailoverSituation
    ) -> String? {
        let groups = Set(situation.members.filter { nodes.contains($0.node) }.map(\.group))
        guard let group = groups.first, groups.count == 1, nodes.count > 1,
            situation.members.contains(where: { $0.group != group })
        else { return nil }
        let all = situation.members.filter { $0.group == group }
        return all.count == nodes.count ? group : nil
    }
}
