internal import Bytes
internal import ClusterService
internal import Consensus
internal import DataService
internal import Engine
internal import Orchestration
internal import Seams
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// Inspects all nodes many times a second, each time at one instant of true time.
///
/// - Raft: a term has one leader; an index of a group's log has the same entry (`LogSafety`) and
///   the same state at all members; the applied index never decreases while a process runs.
/// - Lease: no two nodes serve a vBucket at one instant, and a promoted copy does not serve before
///   it is confirmed.
/// - History: copies of a vBucket agree on their common history; checked every five seconds. A copy
///   with all changes of the active copy has no prepare outstanding that the active copy has
///   decided.
/// - Quota: no committed state has buckets above the memory quota (`QuotaBound`).
/// - Level: no member announces less than the agreed feature level, which never falls
///   (`LevelBound`).
/// - MapOrder: (revEpoch, rev) of a bucket never decreases at a node, and its rows have distinct
///   nodes.
final class Watch {
    static let intervalNanoseconds: UInt64 = 20_000_000
    private static let statesMax = 400
    /// Inspections between two comparisons of histories.
    private static let historyInterval = 250

    private struct Position: Hashable {
        let group: UInt64
        let index: UInt64
    }

    private struct Term: Hashable {
        let group: UInt64
        let term: UInt64
    }

    /// The key of a member's log: while it is the same, the log is unchanged.
    private struct LogVersion: Hashable {
        let process: Int
        let group: UInt64
        let isLeader: Bool
        let term: UInt64
        let commit: UInt64
        let last: LogPosition
    }

    private struct ServedBucket: Hashable {
        let uuid: String
        let name: String
    }

    let cluster: SimulatedCluster
    let verifier: Verifier
    private var leaders: [Term: String] = [:]
    private var states: [Position: ClusterState] = [:]
    private var order: [Position] = []
    private var seen: [String: (process: Int, index: UInt64, group: UInt64)] = [:]
    private var revisions: [String: [String: (epoch: UInt64, rev: UInt64)]] = [:]
    private(set) var changes = Changes()
    private(set) var exposure = Exposure()
    private(set) var disks = DiskExposure()
    private var logs = LogSafety()
    private var levels = LevelBound()
    /// By the UUID of a bucket and the number of a vBucket.
    var promotions: [String: [Int: PendingPromotion]] = [:]
    private var logVersions: [String: LogVersion] = [:]
    private var inspections = 0
    private var compared = 0
    var losses = Losses()
    /// By node, process and bucket.
    var memory: [MemoryPlace: MemoryBound] = [:]

    init(_ cluster: SimulatedCluster, _ verifier: Verifier) {
        self.cluster = cluster
        self.verifier = verifier
    }

    func start() { next() }

    var tally: Tally {
        var tally = changes.tally
        tally[.check, "comparedCopies"] = compared
        // Seeds in which the strongest durability level is not checked.
        tally[.check, "seedsBeyondDisks"] = disks.isBeyond ? 1 : 0
        tally[.check, "comparedEntries"] = logs.compared
        tally[.check, "repeatedProposals"] = logs.repeated
        tally[.check, "raisedLevels"] = levels.raises
        tally[.check, "lostChanges"] = Int(losses.lost)
        tally[.check, "lostChangesTold"] = Int(reportedLosses.changes)
        return tally
    }

    private func next() {
        cluster.world.after(Watch.intervalNanoseconds) { [weak self] in
            guard let self else { return }
            inspect()
            next()
        }
    }

    private func inspect() {
        inspections += 1
        let view = cluster.newestState.map { ClusterView(cluster, $0) }
        if let view {
            changes.record(view.state)
            checkLevels(view.state)
            if inspections % Watch.historyInterval == 0 { compareHistories(view.state) }
            if inspections % 5 == 0 { comparePrepares(view) }
            updateExposure(view)
        }
        checkLogs()
        checkMemory()
        if let view { checkCopies(view) }
        // The serving node of each vBucket, by bucket.
        var serving: [ServedBucket: [Int: (address: String, fence: UInt64)]] = [:]
        for node in cluster.nodes {
            guard let service = node.service else { continue }
            let state = service.state
            checkLeader(node, service.cluster.raftStatus, state: state)
            checkApplied(node, node.restarts, state: state)
            // A stopping node has left the network already.
            guard let data = node.node?.data, !node.host.isFrozen, !node.isStopping,
                data.holdsLease
            else { continue }
            for bucket in state.buckets {
                let served = ServedBucket(uuid: bucket.settings.uuid, name: bucket.settings.name)
                checkActiveCopies(node, bucket, data: data, serving: &serving[served, default: [:]])
            }
        }
    }

    private func checkLevels(_ state: ClusterState) {
        var announced: [String: FeatureLevel] = [:]
        for node in cluster.nodes where node.service != nil { announced[node.address] = node.level }
        if let flaw = levels.check(state, announced: announced) {
            verifier.reportFlaw("Level: \(flaw)")
        }
    }

    private func checkActiveCopies(
        _ node: SimulatedNode,
        _ bucket: BucketRecord,
        data: DocumentService,
        serving: inout [Int: (address: String, fence: UInt64)]
    ) {
        let name = bucket.settings.name
        let index = losses.index(of: bucket.settings.uuid)
        for vBucket in data.bucket(named: name)?.engine.all ?? [] {
            let serves: (id: VBucketID, fence: UInt64, high: Seqno)? = vBucket.withCore { core in
                guard core.state == .active, core.ownership.exists else { return nil }
                let high = core.ownership.isResetting ? Seqno.zero : core.highSeqno
                return (core.id, core.ownership.fence, high)
            }
            guard let (id, fence, high) = serves else { continue }
            losses.recordActive(index, id, fence: fence, high: high)
            let placement = bucket[id]
            if placement.fence == fence, !placement.isConfirmed {
                verifier.reportFlaw(
                    "Lease: \(node.address) serves \(name) \(id) (\(fence)) before its confirmation"
                )
            }
            if let other = serving.updateValue((node.address, fence), forKey: Int(id.number)),
                !verifier.isBeyondAssumptions
            {
                verifier.reportFlaw(
                    "Lease: \(other.address) (fence \(other.fence)) and \(node.address) (\(fence)) "
                        + "both serve \(name) \(id)"
                )
            }
        }
    }

    // MARK: Losses of copies

    /// The losses that failovers reported in the log.
    private var reportedLosses: (failovers: UInt64, changes: UInt64) {
        Losses.reported(
            in: cluster.world.transcript.lines.compactMap { line in
                if case .told(_, _, let text) = line.event { text } else { nil }
            }
        )
    }

    /// Checks that are possible only at the end of a run.
    func conclude() {
        if let flaw = losses.flaw(reportedLosses) { verifier.reportFlaw("Acknowledged: \(flaw)") }
    }

    private func updateExposure(_ view: ClusterView) {
        let state = view.state
        func reports(_ number: NodeNumber, _ bucket: BucketRecord) -> [CopyReport] {
            guard let node = view.node(number), !node.host.isFrozen else { return [] }
            return node.node?.data.reports(bucket.settings.name) ?? []
        }
        let failovers = changes.tally[.change, "failover"]
        var events = changes.failovers
        for node in cluster.nodes { events[node.address, default: 0] += node.restarts }
        exposure.update(events: events) { Exposure.isWhole(state, reports) }
        var majority = Int.max
        for bucket in state.buckets {
            for placement in bucket.placements {
                majority = min(majority, Int(placement.copies) / 2 + 1)
            }
        }
        disks.update(
            failovers: failovers,
            ends: cluster.restarts,
            majority: majority
        ) {
            guard Exposure.isWhole(state, reports) else { return nil }
            var copies: [String: DiskExposure.Progress] = [:]
            for bucket in state.buckets where bucket.settings.type == .persistent {
                let name = bucket.settings.name
                for node in Set(bucket.placements.flatMap(\.chain.nodes)) {
                    for report in reports(node, bucket)
                    where bucket[report.vBucket].chain.contains(node) {
                        copies["\(name) \(report.vBucket) \(node)"] = .init(
                            high: report.high,
                            persisted: report.persisted
                        )
                    }
                }
            }
            return copies
        }
    }

    // MARK: Raft

    /// Checks conditions that last only a moment; also called before a fault ends a process.
    func checkMomentaryState() {
        checkLogs()
        if let state = cluster.newestState { checkCopies(ClusterView(cluster, state)) }
    }

    /// Checks the logs of all members that changed since the last inspection.
    private func checkLogs() {
        for node in cluster.nodes {
            guard let service = node.service else { continue }
            let status = service.cluster.raftStatus
            let state = service.state
            guard state.groupID != 0, state.isProvisioned else { continue }
            let log = service.cluster.raftLog
            let version = LogVersion(
                process: node.restarts,
                group: state.groupID,
                isLeader: status.role == .leader,
                term: status.term,
                commit: log.commit,
                last: log.last
            )
            // `LogSafety` depends on nothing else and has checked this version.
            if logVersions.updateValue(version, forKey: node.address) == version { continue }
            let member = LogSafety.Member(
                address: node.address,
                process: version.process,
                isLeader: version.isLeader,
                term: version.term,
                commit: version.commit,
                applied: status.applied,
                log: log,
                state: state
            )
            let reportedCount = logs.quotaFlaws.count
            for flaw in logs.check(member) { verifier.reportFatalFlaw("Raft: \(flaw)") }
            for flaw in logs.quotaFlaws.dropFirst(reportedCount) {
                verifier.reportFlaw("Quota: \(flaw)")
            }
        }
    }

    private func checkLeader(_ node: SimulatedNode, _ status: RaftStatus, state: ClusterState) {
        guard status.role == .leader, state.groupID != 0 else { return }
        let term = Term(group: state.groupID, term: status.term)
        let known = leaders.updateValue(node.address, forKey: term)
        if let known, known != node.address {
            verifier.reportFlaw(
                "Raft: \(known) and \(node.address) both lead in term \(status.term)"
            )
        }
    }

    private func checkApplied(_ node: SimulatedNode, _ process: Int, state: ClusterState) {
        guard state.groupID != 0, state.isProvisioned else { return }
        let before = seen[node.address]
        if let before, before.process == process, before.group == state.groupID {
            guard before.index != state.index else { return }
            if state.index < before.index {
                verifier.reportFlaw(
                    "Raft: the applied index of \(node.address) fell to \(state.index)"
                )
            }
        }
        seen[node.address] = (process, state.index, state.groupID)
        let position = Position(group: state.groupID, index: state.index)
        if let known = states[position] {
            if known != state {
                verifier.reportFlaw("Raft: two nodes have different states of index \(state.index)")
            }
        } else {
            states[position] = state
            order.append(position)
            if order.count > Watch.statesMax { states[order.removeFirst()] = nil }
        }
        checkMaps(of: node, state)
    }

    // MARK: Histories

    private func compareHistories(_ state: ClusterState) {
        for bucket in state.buckets {
            for number in bucket.placements.indices {
                let vBucket = VBucketID(UInt16(number))
                let copies = cluster.nodes.compactMap { node in
                    node.copy(vBucket, of: bucket.settings.name).map { (node.address, $0) }
                }
                for (place, (address, copy)) in copies.enumerated() {
                    compared += 1
                    let name = "\(bucket.settings.name) \(vBucket)"
                    if let flaw = CommonHistory.flaw(copy.log) {
                        verifier.reportFlaw("History: \(name) at \(address): \(flaw)")
                    }
                    for (other, otherCopy) in copies.dropFirst(place + 1) {
                        guard let flaw = CommonHistory.flaw(copy, otherCopy) else { continue }
                        verifier.reportFlaw("History: \(name) at \(address) and \(other): \(flaw)")
                    }
                }
            }
        }
    }

    private func comparePrepares(_ view: ClusterView) {
        for bucket in view.state.buckets {
            let name = bucket.settings.name
            let copies = view.copies(of: name)
            for (number, placement) in bucket.placements.enumerated() where placement.isConfirmed {
                let chain = placement.chain.compactMap { copies.on($0)?[number] }
                let standings = chain.map(\.standing)
                guard chain.count == placement.chain.count, standings.allSatisfy({ $0 != nil }),
                    let first = chain.first, let active = standings.first ?? nil
                else { continue }
                for case (let copy, let standing?) in zip(chain, standings).dropFirst()
                where standing.fence == active.fence && standing.covered == active.high
                    && standing.high == active.high && standing.hasPrepares
                    && !first.outstandingSeqnos.isSuperset(of: copy.outstandingSeqnos)
                {
                    verifier.reportFlaw(
                        "History: \(name) \(VBucketID(UInt16(number))): a replica keeps a prepare "
                            + "that was decided"
                    )
                }
            }
        }
    }

    // MARK: Maps

    private func checkMaps(of node: SimulatedNode, _ state: ClusterState) {
        var known = revisions[node.address] ?? [:]
        for bucket in state.buckets {
            let revision = (epoch: state.revEpoch, rev: bucket.rev)
            if let before = known[bucket.settings.name], revision < before,
                before.epoch == revision.epoch, seen[node.address]?.index ?? 0 >= before.rev
            {
                verifier.reportFlaw(
                    "MapOrder: \(bucket.settings.name) went from revision \(before.rev) to "
                        + "\(revision.rev) at \(node.address)"
                )
            }
            known[bucket.settings.name] = revision
            for placement in bucket.placements
            where Set(placement.chain.nodes).count != placement.chain.count {
                verifier.reportFlaw("MapOrder: a row of \(bucket.settings.name) has a node twice")
            }
        }
        revisions[node.address] = known
    }
}
