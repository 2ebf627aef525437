internal import Consensus
internal import Orchestration
internal import Seams
internal import Vocabulary

/// The state of the rebalance that this node leads, for requests at any time.
struct RebalanceRun: Sendable {
    /// The rebalance that is carried out here; nil if none is.
    var id: String?
    var progress: RebalanceProgress?
    /// A progress mark is being proposed.
    var isMarking = false
    /// The obstacle of the slowest move; nil if none is known.
    var obstacle: String?
    var standstill: Standstill
    var mustStop = false
    /// All moves are done: nodes to be removed first lose their votes, and leadership.
    var isRetiring = false
    /// The bucket whose vBuckets are being moved.
    var bucket: String?
    /// When the last vBucket got another owner, here or under the previous leader.
    var handedOverAt: UInt64?
    /// Its vBuckets that are between two owners, as planned.
    var handedOver: Set<VBucketID> = []

    init(id: String? = nil, now: UInt64 = 0) {
        self.id = id
        standstill = Standstill(now: now)
    }
}

/// How the moves of one bucket ended.
private enum BucketResult {
    case done
    case stopped
    case failed(String)
    /// Another node leads now and continues.
    case left
}

/// Rebalance and graceful failover: bucket by bucket, vBucket by vBucket.
extension Orchestrator {
    /// From the last move until removed nodes leave the map: long enough for an answer to reach a
    /// busy client.
    private static let followPauseNanoseconds: UInt64 = 1_000_000_000

    /// Starts to carry out the agreed rebalance, unless that is under way.
    func advanceRebalance() {
        guard let record = state.rebalance else { return }
        guard rebalancing.id != record.id else { return logStandstill() }
        rebalancing = RebalanceRun(id: record.id, now: now)
        rebalancing.mustStop = stopAsked == record.id
        executor.spawn { await self.carryOut(record) }
    }

    /// Logs what the rebalance waits for after a while without progress.
    private func logStandstill() {
        guard let seconds = rebalancing.standstill.secondsToLog(now: now) else { return }
        let why = rebalancing.obstacle ?? "No node is known to delay it."
        member.logEvent(
            .warning,
            .rebalance,
            "The rebalance has made no progress for \(seconds) s. \(why)"
        )
    }

    /// Starts a failed rebalance again once its retry time has come.
    func retryRebalance() async {
        guard state.rebalance == nil, let retry = state.retry,
            member.wallMilliseconds >= retry.dueMilliseconds
        else { return }
        switch await propose(.startRebalance(retry.record), by: retry.login) {
        case .applied:
            let attempts = "attempt \(retry.attempt) of \(state.settings.retry.attemptsMax)"
            member.logEvent(
                .info,
                .rebalance,
                "The failed rebalance was started again: \(attempts)."
            )
        case .refused(let refusal):
            await propose(.dropRetry(id: retry.id))
            let cause =
                refusal == .notPermitted
                ? "the login that started it may no longer do so" : "the cluster's nodes changed"
            member.logEvent(
                .warning,
                .rebalance,
                "The failed rebalance is not retried: \(cause). Start a new one."
            )
        case .repeated, nil: break
        }
    }

    /// Stops the rebalance after the moves under way; completed moves stay.
    func stopRebalance(_ id: String) {
        stopAsked = id
        if id == rebalancing.id { rebalancing.mustStop = true }
        requestRound()
    }

    private func carryOut(_ record: RebalanceRecord) async {
        let names = state.buckets.map(\.settings.name)
        if record.bucket != nil { rebalancing.handedOverAt = now }
        rebalancing.progress = RebalanceProgress(
            nodes: record.kept + record.ejected,
            bucketsCount: names.count,
            after: record.reached
        )
        for (place, name) in names.enumerated() {
            switch await move(bucket: name, number: place + 1, record) {
            case .done: continue
            case .stopped: return await end(record, .stopped, "The rebalance was stopped.")
            case .failed(let sentence): return await end(record, .failed, sentence)
            case .left:
                rebalancing = RebalanceRun()
                return
            }
        }
        switch await waitForClients(record) {
        case .stopped: return await end(record, .stopped, "The rebalance was stopped.")
        case .left:
            rebalancing = RebalanceRun()
            return
        case .done, .failed: break
        }
        if record.kind == .gracefulFailover {
            let step = FailoverStep(nodes: record.ejected, isAutomatic: false, mayLose: false)
            if case .refused(.nodeInUse) = await propose(.failOver(step), by: record.login) {
                return await end(
                    record,
                    .failed,
                    "A node to be failed over is active for a vBucket again. Retry the failover."
                )
            }
        }
        switch await waitForVoterRemoval(record) {
        case .done: await end(record, .completed, continuedWithout(record))
        case .stopped: await end(record, .stopped, "The rebalance was stopped.")
        case .left: rebalancing = RebalanceRun()
        case .failed(let sentence): await end(record, .failed, sentence)
        }
    }

    /// Nodes whose vBuckets were all moved, and that are removed as soon as their votes are not
    /// needed.
    var leavingVoters: [NodeNumber] {
        guard rebalancing.isRetiring, let record = state.rebalance, record.id == rebalancing.id
        else { return [] }
        return record.ejected
    }

    /// Waits until clients that learned of the last moves have the answers to their earlier
    /// requests.
    ///
    /// Until then the nodes to be removed answer them and stay in the map.
    private func waitForClients(_ record: RebalanceRecord) async -> BucketResult {
        guard let last = rebalancing.handedOverAt, !record.ejected.isEmpty else { return .done }
        while now < last + Self.followPauseNanoseconds {
            guard isLeading, state.rebalance?.id == record.id else { return .left }
            if rebalancing.mustStop { return .stopped }
            show(obstacle: "Waiting for clients to switch to the remaining nodes.")
            await executor.sleep(
                nanoseconds: min(last + Self.followPauseNanoseconds - now, 50_000_000)
            )
        }
        return .done
    }

    /// Waits until the log's voters do not include the nodes to be removed.
    ///
    /// A node stops when it learns of its removal. If it were still one of two voters then, no
    /// leader could be elected without it. If it is this node, another node becomes leader and
    /// continues.
    private func waitForVoterRemoval(_ record: RebalanceRecord) async -> BucketResult {
        guard record.kind == .rebalance, !record.ejected.isEmpty else { return .done }
        rebalancing.isRetiring = true
        while isLeading, state.rebalance?.id == record.id {
            let configuration = member.driver.status.configuration
            if !configuration.isJoint,
                !configuration.voters.contains(where: { record.ejected.contains($0) })
            {
                return .done
            }
            if rebalancing.mustStop { return .stopped }
            show(obstacle: logObstacle ?? "Waiting until the nodes to be removed have no vote.")
            requestRound()
            await executor.sleep(nanoseconds: 50_000_000)
        }
        return .left
    }

    private func end(
        _ record: RebalanceRecord,
        _ ending: RebalanceOutcome.Ending,
        _ sentence: String
    ) async {
        let outcome = RebalanceOutcome(
            id: record.id,
            ending: ending,
            sentence: sentence,
            endedMilliseconds: member.wallMilliseconds
        )
        // Nodes that stay after all keep their votes, and may lead.
        if ending != .completed { rebalancing.isRetiring = false }
        // Until the end is agreed on, a request to stop is still accepted.
        while await propose(.endRebalance(outcome)) == nil {
            guard isLeading, state.rebalance?.id == record.id else { break }
            await executor.sleep(nanoseconds: 200_000_000)
        }
        guard state.lastRebalance?.id == record.id else {
            // The current leader continues with it.
            rebalancing = RebalanceRun()
            return requestRound()
        }
        let what = record.kind == .rebalance ? "The rebalance" : "The graceful failover"
        switch ending {
        case .completed:
            let more = sentence.isEmpty ? "" : " \(sentence)"
            member.logEvent(.info, .rebalance, "\(what) is complete.\(more)")
        case .stopped: member.logEvent(.info, .rebalance, "\(what) was stopped.")
        case .failed: member.logEvent(.error, .rebalance, "\(what) failed: \(sentence)")
        }
        rebalancing = RebalanceRun()
        requestRound()
    }

    /// A sentence about nodes that were failed over during the rebalance; empty if there are none.
    private func continuedWithout(_ record: RebalanceRecord) -> String {
        guard let left = state.rebalance, record.kind == .rebalance else { return "" }
        let gone = (record.kept + record.ejected).filter { node in
            !left.kept.contains(node) && !left.ejected.contains(node)
        }
        guard !gone.isEmpty else { return "" }
        let names = gone.map { name($0) }.joined(separator: ", ")
        return "It continued without \(names), which was failed over during the rebalance."
    }

    // MARK: One bucket

    /// Plans and moves, repeatedly while the plan is overtaken by other changes.
    private func move(
        bucket name: String,
        number: Int,
        _ first: RebalanceRecord
    ) async -> BucketResult {
        var pause: UInt64 = 100_000_000
        var isFirst = true
        var passes = 5
        var waits = RowWaits()
        while true {
            guard isLeading else { return .left }
            guard let bucket = state.bucket(named: name), let record = state.rebalance,
                record.id == first.id
            else { return .done }
            if rebalancing.mustStop { return .stopped }
            await releaseFormers(ofBucket: name)
            let items = await items(of: bucket)
            // All nodes that were to stay may have been removed since.
            guard record.kept.contains(where: { state.node(number: $0) != nil }) else {
                return .failed("None of the nodes that were to stay is left in the cluster.")
            }
            let moves = moves(of: bucket, record, items)
            let isWaiting = !obstacles(in: bucket).isEmpty
            if moves.isEmpty, !isWaiting { return .done }
            if isFirst {
                noteStep()
                rebalancing.progress?.begin(bucket: name, number: number, moves: moves)
            } else {
                rebalancing.progress?.replan(moves: moves)
            }
            isFirst = false
            let runner = VBucketMoveRunner(self, bucket: name, record: record, moves: moves)
            switch await runner.run() {
            // Other entries may have moved vBuckets meanwhile: done only if a new plan is empty.
            case .done where passes > 0 && !isWaiting:
                passes -= 1
                continue
            case .done where !isWaiting: return .done
            case .done, .again: break
            case .stopped: return .stopped
            case .failed(let sentence): return .failed(sentence)
            case .left: return .left
            }
            // Evaluated again: the moves may have taken an hour.
            let standing = state.bucket(named: name).map { obstacles(in: $0) } ?? []
            let left = isWaiting ? standing : []
            if let overdue = waits.take(left, now: now) {
                return .failed(sentence(overdue, name))
            }
            if let first = left.first { show(obstacle: sentence(first, name)) }
            await executor.sleep(nanoseconds: pause)
            pause = min(pause * 2, 5_000_000_000)
        }
    }

    private func moves(
        of bucket: BucketRecord,
        _ record: RebalanceRecord,
        _ items: [VBucketID: UInt64]
    ) -> [PlannedMove] {
        let targets = plan(bucket, record)
        let awaited = state.awaited
        var moves: [PlannedMove] = []
        for (number, planned) in targets.enumerated() {
            let vBucket = VBucketID(UInt16(number))
            let placement = bucket[vBucket]
            guard placement.isConfirmed, placement.former == nil || placement.isJoint,
                !placement.isLeft(to: awaited)
            else { continue }
            // Finish a move that a previous leader began, whatever its target.
            let target = placement.isJoint ? placement.next : planned
            guard !target.isEmpty, placement.chain != target else { continue }
            moves.append(
                PlannedMove(
                    vBucket,
                    from: placement.chain.nodes,
                    to: target.nodes,
                    items: items[vBucket] ?? 0
                )
            )
        }
        return moves
    }

    private func plan(_ bucket: BucketRecord, _ record: RebalanceRecord) -> [NodeChain] {
        let kept = record.kept.compactMap { state.node(number: $0) }
        let plan = RebalancePlan(
            rows: bucket.chains,
            nodes: kept.map { PlacementNode($0.number, group: $0.group) },
            copies: bucket.settings.replicas + 1,
            formers: bucket.placements.map { placement in
                placement.rowBefore.filter { record.delta.contains($0) }
            }
        )
        return plan.targets.map { NodeChain($0) ?? NodeChain() }
    }

    /// The number of documents of each vBucket, estimated by the seqno of its active copy.
    private func items(of bucket: BucketRecord) async -> [VBucketID: UInt64] {
        let reports = await copies(of: bucket).reports(from: bucket.holders)
        var items: [VBucketID: UInt64] = [:]
        for (vBucket, placement) in bucket.numberedPlacements {
            guard let node = placement.chain.first else { continue }
            items[vBucket] = reports[node]?[vBucket]?.high.value
        }
        return items
    }

    // MARK: For the runner

    /// Changes the progress in place: it has a record for each vBucket.
    func showProgress(_ change: (inout RebalanceProgress?) -> Void) {
        change(&rebalancing.progress)
    }

    /// Proposes a progress mark if more was reached than the agreed mark allows to show.
    func markProgress() {
        guard !rebalancing.isMarking, let record = state.rebalance,
            record.id == rebalancing.id, let mark = rebalancing.progress?.mark,
            !record.reached.covers(mark)
        else { return }
        rebalancing.isMarking = true
        executor.spawn {
            await self.propose(.markRebalance(ProgressStep(rebalance: record.id, reached: mark)))
            await self.endMarking()
        }
    }

    private func endMarking() { rebalancing.isMarking = false }

    /// A move made a step.
    func noteStep() { rebalancing.standstill.moved(now: now) }

    func show(obstacle: String?) { rebalancing.obstacle = obstacle }

    var mustStop: Bool { rebalancing.mustStop }
}
