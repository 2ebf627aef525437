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

/// Looks at every node many times a second, at the same true instant, as nobody in the world can.
///
/// - Raft: a term has one leader; the same index of one group's log is the same entry (`LogSafety`)
///   and the same state everywhere; what was applied is never taken back while a process lives.
/// - Lease: of a vBucket no two nodes may serve at one instant, and nobody who was promoted serves
///   before that is confirmed.
/// - History: copies of a vBucket agree on the past that they have in common; every five seconds.
///   One that has all of the active one's has no durable write undecided that the other has decided.
/// - Quota: no agreed state gives the buckets more memory than the memory quota (`QuotaBound`).
/// - MapOrder: (revEpoch, rev) of a bucket never falls at a node, and its rows name distinct nodes.
final class Watch {
    static let interval: UInt64 = 20_000_000
    private static let statesMax = 400
    private static let looksOfHistories = 250

    private struct Position: Hashable {
        let group: UInt64
        let index: UInt64
    }

    private struct Term: Hashable {
        let group: UInt64
        let term: UInt64
    }

    /// What a member knows of its log: while it is the same, there is no news in it.
    private struct LogNews: Hashable {
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
    let judge: Judge
    private var leaders: [Term: String] = [:]
    private var states: [Position: ClusterState] = [:]
    private var order: [Position] = []
    private var seen: [String: (process: Int, index: UInt64, group: UInt64)] = [:]
    private var revisions: [String: [String: (epoch: UInt64, rev: UInt64)]] = [:]
    private(set) var changes = Changes()
    private(set) var exposure = Exposure()
    private(set) var disks = DiskExposure()
    private var logs = LogSafety()
    /// By the UUID of a bucket and the number of a vBucket.
    var promotions: [String: [Int: Begun]] = [:]
    private var logNews: [String: LogNews] = [:]
    private var looks = 0
    private var compared = 0
    var losses = Losses()
    /// By node, process and bucket.
    var memory: [MemoryPlace: MemoryBound] = [:]

    init(_ cluster: SimulatedCluster, _ judge: Judge) {
        self.cluster = cluster
        self.judge = judge
    }

    func start() { next() }

    var tally: Tally {
        var tally = changes.tally
        tally[.check, "comparedCopies"] = compared
        // How seldom the strongest level is not judged.
        tally[.check, "seedsBeyondDisks"] = disks.isBeyond ? 1 : 0
        tally[.check, "comparedEntries"] = logs.compared
        tally[.check, "repeatedProposals"] = logs.repeated
        tally[.check, "lostChanges"] = Int(losses.lost)
        tally[.check, "lostChangesTold"] = Int(told.changes)
        return tally
    }

    private func next() {
        cluster.world.after(Watch.interval) { [weak self] in
            guard let self else { return }
            look()
            next()
        }
    }

    private func look() {
        looks += 1
        let sight = cluster.newestState.map { Sight(cluster, $0) }
        if let sight {
            changes.look(sight.state)
            if looks % Watch.looksOfHistories == 0 { compareHistories(sight.state) }
            if looks % 5 == 0 { comparePrepares(sight) }
            lookAtLosses(sight)
        }
        lookAtLogs()
        lookAtMemory()
        if let sight { lookAtCopies(sight) }
        // Of each bucket by vBucket.
        var serving: [ServedBucket: [Int: (address: String, fence: UInt64)]] = [:]
        for node in cluster.nodes {
            guard let service = node.service else { continue }
            let state = service.state
            look(node, service.raftStatus, state)
            look(node, node.restarts, state)
            // Who is being stopped has left the network already.
            guard let data = node.node?.data, !node.host.isFrozen, !node.isStopping,
                data.holdsLease
            else { continue }
            for bucket in state.buckets {
                let served = ServedBucket(uuid: bucket.settings.uuid, name: bucket.settings.name)
                lookAtOwners(node, bucket, data, &serving[served, default: [:]])
            }
        }
    }

    private func lookAtOwners(
        _ node: SimulatedNode,
        _ bucket: BucketRecord,
        _ data: DocumentService,
        _ serving: inout [Int: (address: String, fence: UInt64)]
    ) {
        let name = bucket.settings.name
        let place = losses.place(of: bucket.settings.uuid)
        for vBucket in data.bucket(named: name)?.engine.all ?? [] {
            let serves: (id: VBucketID, fence: UInt64, high: Seqno)? = vBucket.withCore { core in
                guard core.state == .active, core.ownership.exists else { return nil }
                let high = core.ownership.isResetting ? Seqno.zero : core.highSeqno
                return (core.id, core.ownership.fence, high)
            }
            guard let (id, fence, high) = serves else { continue }
            losses.serves(place, id, fence: fence, high: high)
            let placement = bucket[id]
            if placement.fence == fence, !placement.isConfirmed {
                judge.accuse(
                    "Lease: \(node.address) serves \(name) \(id) (\(fence)) before that is confirmed"
                )
            }
            if let other = serving.updateValue((node.address, fence), forKey: Int(id.number)),
                !judge.isBeyondAssumptions
            {
                judge.accuse(
                    "Lease: \(other.address) (fence \(other.fence)) and \(node.address) (\(fence)) "
                        + "both serve \(name) \(id)"
                )
            }
        }
    }

    // MARK: What was lost of copies

    /// What failovers said of their losses.
    private var told: (failovers: UInt64, changes: UInt64) {
        Losses.told(
            cluster.world.transcript.lines.compactMap { line in
                if case .told(_, _, let text) = line.event { text } else { nil }
            }
        )
    }

    /// What can only be judged in the end.
    func conclude() {
        if let flaw = losses.flaw(told) { judge.accuse("Acknowledged: \(flaw)") }
    }

    private func lookAtLosses(_ sight: Sight) {
        let state = sight.state
        func reports(_ number: NodeNumber, _ bucket: BucketRecord) -> [CopyReport] {
            guard let node = sight.node(number), !node.host.isFrozen else { return [] }
            return node.node?.data.reports(bucket.settings.name) ?? []
        }
        let failovers = changes.tally[.change, "failover"]
        var events = changes.failovers
        for node in cluster.nodes { events[node.address, default: 0] += node.restarts }
        exposure.look(events: events) { Exposure.isWhole(state, reports) }
        var majority = Int.max
        for bucket in state.buckets {
            for placement in bucket.placements {
                majority = min(majority, Int(placement.copies) / 2 + 1)
            }
        }
        disks.look(
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

    /// What lasts but a moment: also for whoever is about to end somebody.
    func lookClosely() {
        lookAtLogs()
        if let state = cluster.newestState { lookAtCopies(Sight(cluster, state)) }
    }

    /// What the members of the log have in theirs, wherever that is news.
    private func lookAtLogs() {
        for node in cluster.nodes {
            guard let service = node.service else { continue }
            let status = service.raftStatus
            let state = service.state
            guard state.groupID != 0, state.isProvisioned else { continue }
            let log = service.raftLog
            let news = LogNews(
                process: node.restarts,
                group: state.groupID,
                isLeader: status.role == .leader,
                term: status.term,
                commit: log.commit,
                last: log.last
            )
            // `LogSafety` looks at nothing else, and has seen that.
            if logNews.updateValue(news, forKey: node.address) == news { continue }
            let member = LogSafety.Member(
                address: node.address,
                process: news.process,
                isLeader: news.isLeader,
                term: news.term,
                commit: news.commit,
                applied: status.applied,
                log: log,
                state: state
            )
            let toldOfQuotas = logs.quotaFlaws.count
            for flaw in logs.look(member) { judge.giveUp("Raft: \(flaw)") }
            for flaw in logs.quotaFlaws.dropFirst(toldOfQuotas) { judge.accuse("Quota: \(flaw)") }
        }
    }

    private func look(_ node: SimulatedNode, _ status: RaftStatus, _ state: ClusterState) {
        guard status.role == .leader, state.groupID != 0 else { return }
        let term = Term(group: state.groupID, term: status.term)
        let known = leaders.updateValue(node.address, forKey: term)
        if let known, known != node.address {
            judge.accuse("Raft: \(known) and \(node.address) both lead in term \(status.term)")
        }
    }

    private func look(_ node: SimulatedNode, _ process: Int, _ state: ClusterState) {
        guard state.groupID != 0, state.isProvisioned else { return }
        let before = seen[node.address]
        if let before, before.process == process, before.group == state.groupID {
            guard before.index != state.index else { return }
            if state.index < before.index {
                judge.accuse("Raft: \(node.address) went back to index \(state.index)")
            }
        }
        seen[node.address] = (process, state.index, state.groupID)
        let position = Position(group: state.groupID, index: state.index)
        if let known = states[position] {
            if known != state {
                judge.accuse("Raft: two nodes differ in what index \(state.index) made")
            }
        } else {
            states[position] = state
            order.append(position)
            if order.count > Watch.statesMax { states[order.removeFirst()] = nil }
        }
        look(atMapsOf: node, state)
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
                        judge.accuse("History: \(name) at \(address): \(flaw)")
                    }
                    for (other, its) in copies.dropFirst(place + 1) {
                        guard let flaw = CommonHistory.flaw(copy, its) else { continue }
                        judge.accuse("History: \(name) at \(address) and \(other): \(flaw)")
                    }
                }
            }
        }
    }

    private func comparePrepares(_ sight: Sight) {
        for bucket in sight.state.buckets {
            let name = bucket.settings.name
            let copies = sight.copies(of: name)
            for (number, placement) in bucket.placements.enumerated() where placement.isConfirmed {
                let chain = placement.chain.compactMap { copies.on($0)?[number] }
                let standings = chain.map(\.standing)
                guard chain.count == placement.chain.count, standings.allSatisfy({ $0 != nil }),
                    let first = chain.first, let active = standings.first ?? nil
                else { continue }
                for case (let copy, let its?) in zip(chain, standings).dropFirst()
                where its.fence == active.fence && its.covered == active.high
                    && its.high == active.high && its.hasPrepares
                    && !first.undecided.isSuperset(of: copy.undecided)
                {
                    judge.accuse(
                        "History: \(name) \(VBucketID(UInt16(number))): a copy keeps what was "
                            + "called off"
                    )
                }
            }
        }
    }

    // MARK: Maps

    private func look(atMapsOf node: SimulatedNode, _ state: ClusterState) {
        var known = revisions[node.address] ?? [:]
        for bucket in state.buckets {
            let revision = (epoch: state.revEpoch, rev: bucket.rev)
            if let before = known[bucket.settings.name], revision < before,
                before.epoch == revision.epoch, seen[node.address]?.index ?? 0 >= before.rev
            {
                judge.accuse(
                    "MapOrder: \(bucket.settings.name) went from revision \(before.rev) to "
                        + "\(revision.rev) at \(node.address)"
                )
            }
            known[bucket.settings.name] = revision
            for placement in bucket.placements
            where Set(placement.chain.nodes).count != placement.chain.count {
                judge.accuse("MapOrder: a row of \(bucket.settings.name) names a node twice")
            }
        }
        revisions[node.address] = known
    }
}
