internal import Vocabulary

/// Rebalance and graceful failover: bucket by bucket, vBucket by vBucket.
extension Reconciler {
    /// From the last move until removed nodes leave the map: long enough for an answer to reach a
    /// busy client.
    private static let clientPauseNanoseconds: UInt64 = 1_000_000_000
    private static let pollNanoseconds: UInt64 = 50_000_000
    private static let planningPauseNanosecondsMax: UInt64 = 5_000_000_000

    /// Starts a failed rebalance again once its retry time has come.
    mutating func retryRebalance(_ view: LeaderView) {
        guard view.state.rebalance == nil, let retry = view.state.retry,
            view.wallMilliseconds >= retry.dueMilliseconds, begin(.retry)
        else { return }
        propose(.startRebalance(retry.record), by: retry.login) { reconciler, outcome, view in
            switch outcome {
            case .applied:
                let attemptsMax = view.state.settings.retry.attemptsMax
                reconciler.log(
                    .info,
                    .rebalance,
                    text:
                        "The failed rebalance was started again: attempt \(retry.attempt) of \(attemptsMax)."
                )
                reconciler.end(.retry)
            case .refused(let refusal):
                let cause =
                    refusal == .notPermitted
                    ? "the login that started it may no longer do so"
                    : "the cluster's nodes changed"
                reconciler.propose(.dropRetry(id: retry.id)) { reconciler, _, _ in
                    reconciler.log(
                        .warning,
                        .rebalance,
                        text: "The failed rebalance is not retried: \(cause). Start a new one."
                    )
                    reconciler.end(.retry)
                }
            case .repeated, nil: reconciler.end(.retry)
            }
        }
    }

    /// Nodes whose vBuckets were all moved, and that are removed as soon as their votes are not
    /// needed.
    func leavingVoters(_ view: LeaderView) -> [NodeNumber] {
        guard let record = view.state.rebalance, record.id == rebalance.id,
            record.kind == .rebalance
        else { return [] }
        switch rebalance.stage {
        case .retiring, .ending(.completed): return record.ejected
        // Nodes that stay after all keep their votes, and may lead.
        case .moving, .waitingForClients, .failingOver, .ending: return []
        }
    }

    /// Makes the next steps of the agreed rebalance; starts it if this leader has not.
    mutating func advanceRebalance(_ view: LeaderView) {
        guard let record = view.state.rebalance else {
            // Its end may be agreed on, and the outcome still on the way.
            if case .ending = rebalance.stage { return }
            if rebalance.id != nil { rebalance = RebalanceRun() }
            return
        }
        if rebalance.id != record.id { start(record, view) }
        while makeStep(record, view) {}
    }

    private mutating func start(_ record: RebalanceRecord, _ view: LeaderView) {
        let names = view.state.buckets.map(\.settings.name)
        rebalance = RebalanceRun(id: record.id, now: view.now)
        rebalance.mustStop = waits.rebalanceToStop == record.id
        rebalance.buckets = names[...]
        if record.bucket != nil { rebalance.handedOverAt = view.now }
        rebalance.progress = RebalanceProgress(
            nodes: record.kept + record.ejected,
            bucketsCount: names.count,
            after: record.reached
        )
    }

    /// Makes one step.
    ///
    /// - Returns: Whether the next step can follow at once.
    private mutating func makeStep(_ record: RebalanceRecord, _ view: LeaderView) -> Bool {
        logStandstill(view)
        switch rebalance.stage {
        case .moving:
            guard let name = rebalance.buckets.first else {
                rebalance.stage = .waitingForClients
                return true
            }
            return rebalance.moves == nil
                ? plan(bucket: name, record, view) : makeMoves(ofBucket: name, record, view)
        case .waitingForClients: return waitForClients(record, view)
        case .retiring: return waitForVoterRemoval(record, view)
        case .failingOver, .ending: return false
        }
    }

    /// Logs what the rebalance waits for after a while without progress.
    private mutating func logStandstill(_ view: LeaderView) {
        guard let seconds = rebalance.standstill.secondsToLog(now: view.now) else { return }
        let why = rebalance.obstacle ?? "No node is known to delay it."
        log(
            .warning,
            .rebalance,
            text: "The rebalance has made no progress for \(seconds) s. \(why)"
        )
    }

    // MARK: One bucket

    /// Asks for the answers that a plan needs, then plans.
    private mutating func plan(
        bucket name: String,
        _ record: RebalanceRecord,
        _ view: LeaderView
    ) -> Bool {
        guard !rebalance.planning.isAsking else { return false }
        guard view.now >= rebalance.planning.nextAt else {
            wake(at: rebalance.planning.nextAt)
            return false
        }
        guard view.state.bucket(named: name) != nil else { return finishBucket() }
        if rebalance.mustStop { return endStopped(record, view) }
        rebalance.planning.isAsking = true
        releaseFormers(ofBucket: name, view) { reconciler, view in
            guard reconciler.rebalance.id == record.id, reconciler.rebalance.buckets.first == name
            else { return }
            guard let bucket = view.state.bucket(named: name) else {
                reconciler.rebalance.planning.isAsking = false
                return
            }
            reconciler.askReports(of: bucket, from: bucket.holders, view) {
                reconciler,
                reports,
                view in
                guard reconciler.rebalance.id == record.id,
                    reconciler.rebalance.buckets.first == name
                else { return }
                reconciler.rebalance.planning.isAsking = false
                reconciler.begin(movesOf: name, reports, view)
            }
        }
        return false
    }

    private mutating func finishBucket() -> Bool {
        rebalance.buckets.removeFirst()
        rebalance.planning = RebalanceRun.Planning()
        return true
    }

    /// Plans the moves of a bucket and starts them.
    private mutating func begin(movesOf name: String, _ reports: CopyReports, _ view: LeaderView) {
        guard let bucket = view.state.bucket(named: name), let record = view.state.rebalance,
            record.id == rebalance.id
        else { return }
        // All nodes that were to stay may have been removed since.
        guard record.kept.contains(where: { view.state.node(number: $0) != nil }) else {
            let sentence = "None of the nodes that were to stay is left in the cluster."
            return end(record, as: .failed, sentence: sentence, view)
        }
        let moves = view.moves(of: bucket, record, reports)
        rebalance.planning.isWaiting = !waits.abandonments.obstacles(in: bucket, view).isEmpty
        if moves.isEmpty, !rebalance.planning.isWaiting {
            _ = finishBucket()
            return
        }
        if rebalance.planning.isFirst {
            rebalance.standstill.moved(now: view.now)
            let number = (rebalance.progress?.bucketsCount ?? 0) - rebalance.buckets.count + 1
            rebalance.progress?.begin(bucket: name, number: number, moves: moves)
        } else {
            rebalance.progress?.replan(moves: moves)
        }
        rebalance.planning.isFirst = false
        waits.movesBegun += 1
        rebalance.moves = BucketMoves(bucket: name, number: waits.movesBegun, moves: moves)
    }

    /// Makes the next step of the bucket's moves, and ends them.
    private mutating func makeMoves(
        ofBucket name: String,
        _ record: RebalanceRecord,
        _ view: LeaderView
    ) -> Bool {
        guard let bucket = view.state.bucket(named: name), var moves = rebalance.moves else {
            rebalance.moves = nil
            return true
        }
        // Moved out, so that the step changes the only copy.
        rebalance.moves = nil
        if rebalance.mustStop { moves.stop() }
        let effects = moves.next(bucket, view)
        if moves.takeAdvance() { rebalance.standstill.moved(now: view.now) }
        rebalance.obstacle = moves.obstacle(view)
        let (ending, next) = (moves.ending, moves.nextTime(now: view.now))
        rebalance.moves = moves
        for effect in effects { perform(effect, of: bucket, view) }
        markProgress(record)
        guard let ending else {
            wake(at: next)
            return false
        }
        rebalance.moves = nil
        return finish(ending, ofBucket: name, in: record, view)
    }

    private mutating func finish(
        _ ending: BucketMoves.Ending,
        ofBucket name: String,
        in record: RebalanceRecord,
        _ view: LeaderView
    ) -> Bool {
        let isWaiting = rebalance.planning.isWaiting
        switch ending {
        // Other entries may have moved vBuckets meanwhile: done only if a new plan is empty.
        case .done where rebalance.planning.passes > 0 && !isWaiting:
            rebalance.planning.passes -= 1
            return true
        case .done where !isWaiting: return finishBucket()
        case .done, .again: break
        case .stopped: return endStopped(record, view)
        case .failed(let sentence):
            end(record, as: .failed, sentence: sentence, view)
            return false
        }
        // Evaluated again: the moves may have taken an hour.
        let bucket = view.state.bucket(named: name)
        let present = bucket.map { waits.abandonments.obstacles(in: $0, view) } ?? []
        let left = isWaiting ? present : []
        if let overdue = rebalance.planning.waits.take(left, now: view.now) {
            end(record, as: .failed, sentence: view.sentence(overdue, name), view)
            return false
        }
        if let first = left.first { rebalance.obstacle = view.sentence(first, name) }
        let pause = rebalance.planning.pauseNanoseconds
        rebalance.planning.nextAt = view.now + pause
        rebalance.planning.pauseNanoseconds = min(pause * 2, Self.planningPauseNanosecondsMax)
        wake(at: rebalance.planning.nextAt)
        return false
    }

    // MARK: Effects of moves

    private mutating func perform(
        _ effect: BucketMoves.Effect,
        of bucket: BucketRecord,
        _ view: LeaderView
    ) {
        guard let number = rebalance.moves?.number else { return }
        let name = bucket.settings.name
        switch effect {
        case .finished(let vBucket): rebalance.progress?.finished(vBucket)
        case .setTargets(let change):
            propose(.setTargets(change)) { reconciler, outcome, view in
                var isApplied = false
                if case .applied = outcome { isApplied = true }
                reconciler.withMoves(number) {
                    $0.handleTargets(isApplied: isApplied, now: view.now)
                }
            }
        case .recreate(let steps): recreate(steps, of: bucket, number)
        case .propose(let kind, let steps):
            let command = kind.command(VBucketSteps(bucket: name, steps: steps))
            propose(command, isRepeated: true) { reconciler, outcome, view in
                reconciler.handleOutcome(
                    outcome,
                    of: kind,
                    steps: steps,
                    ofBucket: name,
                    number: number,
                    view
                )
            }
        case .ask(let node, let copies):
            let index = view.state.index
            ask(.reports([node: copies]), of: bucket, view) { reconciler, reports, view in
                guard let record = view.state.bucket(named: name) else { return }
                reconciler.withMoves(number) {
                    $0.handleReports(reports[node], of: node, at: index, record)
                }
                reconciler.showSent(reports[node] ?? [:], to: node)
            }
        case .handOver(let node, let group):
            handOver(group, of: node, in: bucket, view) { reconciler, ended, _ in
                reconciler.withMoves(number) { $0.handleHandOvers(ended, of: group) }
            }
        }
    }

    /// Changes the present moves, if they are still those with this number.
    private mutating func withMoves(_ number: UInt64, _ change: (inout BucketMoves) -> Void) {
        guard rebalance.moves?.number == number, var moves = rebalance.moves else { return }
        rebalance.moves = nil
        change(&moves)
        rebalance.moves = moves
    }

    private mutating func recreate(
        _ steps: [VBucketSteps.Step],
        of bucket: BucketRecord,
        _ number: UInt64
    ) {
        // Regardless of their membership: these nodes may serve until they learn of the change.
        let before = steps.flatMap { step in
            bucket[step.vBucket].rowBefore.filter { $0 != step.row.first }
        }
        let all = VBucketSteps(
            bucket: bucket.settings.name,
            steps: steps,
            deposes: Set(before).sorted()
        )
        propose(.recreate(all)) { reconciler, _, _ in
            for step in steps { reconciler.rebalance.progress?.finished(step.vBucket) }
            reconciler.withMoves(number) { $0.endProposal() }
        }
    }

    private mutating func handleOutcome(
        _ outcome: ClusterOutcome?,
        of kind: BulkEntryKind,
        steps: [VBucketSteps.Step],
        ofBucket name: String,
        number: UInt64,
        _ view: LeaderView
    ) {
        guard let outcome, let record = view.state.bucket(named: name) else {
            return withMoves(number) { $0.endProposal() }
        }
        withMoves(number) {
            $0.handleOutcome(outcome, of: kind, steps: steps, record, at: view.state.index)
        }
        guard kind == .takeOver else { return withMoves(number) { $0.endProposal() } }
        rebalance.handedOverAt = view.now
        // The new owners are asked to serve at once; one that cannot reports it.
        var asked: [NodeNumber: [ActivationSubject]] = [:]
        for step in steps {
            let placement = record[step.vBucket]
            guard placement.cause == .takenOver, let node = placement.chain.first else { continue }
            asked[node, default: []].append(
                ActivationSubject(vBucket: step.vBucket, fence: placement.fence)
            )
        }
        activate(asked, of: record, view) { [asked] reconciler, ready, _ in
            reconciler.withMoves(number) {
                $0.handleActivations(ready, of: asked)
                $0.endProposal()
            }
        }
    }

    private mutating func showSent(_ reports: [VBucketID: CopyReport], to node: NodeNumber) {
        for (vBucket, report) in reports
        where rebalance.moves?.isBuilding(vBucket, on: node) == true {
            rebalance.progress?.sent(report.high.value, of: vBucket)
        }
    }

    /// Proposes a progress mark if more was reached than the agreed mark allows to show.
    private mutating func markProgress(_ record: RebalanceRecord) {
        guard !rebalance.isMarking, let mark = rebalance.progress?.mark,
            !record.reached.covers(mark)
        else { return }
        rebalance.isMarking = true
        propose(.markRebalance(ProgressStep(rebalance: record.id, reached: mark))) {
            reconciler,
            _,
            _ in
            if reconciler.rebalance.id == record.id { reconciler.rebalance.isMarking = false }
        }
    }

    // MARK: After the moves

    /// Waits until clients that learned of the last moves have the answers to their earlier
    /// requests.
    ///
    /// Until then the nodes to be removed answer them and stay in the map.
    private mutating func waitForClients(_ record: RebalanceRecord, _ view: LeaderView) -> Bool {
        let last = record.ejected.isEmpty ? nil : rebalance.handedOverAt
        let due = last.map { $0 + Self.clientPauseNanoseconds } ?? 0
        guard view.now >= due else {
            if rebalance.mustStop { return endStopped(record, view) }
            rebalance.obstacle = "Waiting for clients to switch to the remaining nodes."
            wake(at: min(due, view.now + Self.pollNanoseconds))
            return false
        }
        guard record.kind == .gracefulFailover else {
            rebalance.stage = .retiring
            return true
        }
        rebalance.stage = .failingOver
        let step = FailoverStep(nodes: record.ejected, isAutomatic: false, mayLose: false)
        propose(.failOver(step), by: record.login) { reconciler, outcome, view in
            guard reconciler.rebalance.id == record.id else { return }
            guard case .refused(.nodeInUse) = outcome else {
                return reconciler.end(record, as: .completed, sentence: "", view)
            }
            let sentence =
                "A node to be failed over is active for a vBucket again. Retry the failover."
            reconciler.end(record, as: .failed, sentence: sentence, view)
        }
        return false
    }

    /// Waits until the log's voters do not include the nodes to be removed.
    ///
    /// A node stops when it learns of its removal. If it were still one of two voters then, no
    /// leader could be elected without it. If it is this node, another node becomes leader and
    /// continues.
    private mutating func waitForVoterRemoval(
        _ record: RebalanceRecord,
        _ view: LeaderView
    ) -> Bool {
        let isRemoved =
            !view.log.isJoint && !view.log.voters.contains(where: record.ejected.contains)
        guard !isRemoved, !record.ejected.isEmpty else {
            let sentence = view.continuedWithout(record, of: rebalance.progress?.nodes ?? [])
            end(record, as: .completed, sentence: sentence, view)
            return false
        }
        if rebalance.mustStop { return endStopped(record, view) }
        rebalance.obstacle =
            view.logObstacle ?? "Waiting until the nodes to be removed have no vote."
        reconcileVoters(view)
        wake(at: view.now + Self.pollNanoseconds)
        return false
    }

    private mutating func endStopped(_ record: RebalanceRecord, _ view: LeaderView) -> Bool {
        end(record, as: .stopped, sentence: "The rebalance was stopped.", view)
        return false
    }

    private mutating func end(
        _ record: RebalanceRecord,
        as ending: RebalanceOutcome.Ending,
        sentence: String,
        _ view: LeaderView
    ) {
        let outcome = RebalanceOutcome(
            id: record.id,
            ending: ending,
            sentence: sentence,
            endedMilliseconds: view.wallMilliseconds
        )
        rebalance.stage = .ending(ending)
        propose(.endRebalance(outcome), isRepeated: true) { reconciler, _, view in
            guard reconciler.rebalance.id == record.id else { return }
            reconciler.rebalance = RebalanceRun()
            guard view.state.lastRebalance?.id == record.id else { return }
            let what = record.kind == .rebalance ? "The rebalance" : "The graceful failover"
            switch ending {
            case .completed:
                let more = sentence.isEmpty ? "" : " \(sentence)"
                reconciler.log(.info, .rebalance, text: "\(what) is complete.\(more)")
            case .stopped: reconciler.log(.info, .rebalance, text: "\(what) was stopped.")
            case .failed: reconciler.log(.error, .rebalance, text: "\(what) failed: \(sentence)")
            }
        }
    }
}
