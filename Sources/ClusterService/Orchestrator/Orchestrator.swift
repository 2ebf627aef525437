internal import Bytes
internal import Consensus
internal import Orchestration
internal import Seams
internal import Vocabulary

/// The leader's work: performs what the `Reconciler` decides.
///
/// A round reads a `LeaderView`, asks the reconciler for the next actions and performs them; each result is
/// returned to the reconciler with a new view.
///
/// - Everything runs on the control lane, also after every suspension.
/// - It acts only while this node leads and has applied everything committed before its term.
actor Orchestrator {
    /// The pause between rounds without a cause; changes start a round at once.
    private static let intervalNanoseconds: UInt64 = 100_000_000
    private static let retryPauseNanoseconds: UInt64 = 200_000_000

    nonisolated let executor: LaneExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.asUnownedSerialExecutor()
    }

    private let member: ClusterMember
    private var reconciler = Reconciler()
    private var isStopped = false
    private var roundTimer: LaneTimer?
    private var wakeTimer: (timer: LaneTimer, at: UInt64)?
    /// The term in which this node leads, and since when, in monotonic nanoseconds; nil if it does not.
    private var leadership: (term: UInt64, since: UInt64)?
    private var failovers: [UInt64: UnsafeContinuation<FailoverResult, Never>] = [:]
    private var lastFailover: UInt64 = 0

    init(_ member: ClusterMember, executor: LaneExecutor) {
        self.member = member
        self.executor = executor
    }

    // MARK: Rounds

    nonisolated func start() { requestRound() }

    func stop() {
        isStopped = true
        roundTimer?.cancel()
        wakeTimer?.timer.cancel()
        if leadership != nil { perform(reconciler.stopLeading()) }
        leadership = nil
    }

    /// Starts a round after a change: leadership, an entry, a beat.
    nonisolated func requestRound() {
        executor.spawn { await self.runRound() }
    }

    private var now: UInt64 { member.environment.time.monotonicNanoseconds() }
    private var state: ClusterState { member.state }
    private var isLeading: Bool { !isStopped && member.driver.status.isReadyToLead }

    private func runRound() {
        guard !isStopped else { return }
        updateLeadership()
        if leadership != nil { perform(reconciler.next(view)) }
        armTimers()
    }

    /// Begins anew with each term: another node may have led meanwhile.
    private func updateLeadership() {
        let term = isLeading ? member.driver.status.term : nil
        guard term != leadership?.term else { return }
        if leadership != nil { perform(reconciler.stopLeading()) }
        leadership = term.map { ($0, now) }
    }

    private func receive(_ result: ActionResult, of call: UInt64) {
        updateLeadership()
        guard leadership != nil else { return }
        perform(reconciler.receive(result, of: call, view))
        armTimers()
    }

    private func advance() {
        wakeTimer = nil
        updateLeadership()
        guard leadership != nil else { return }
        perform(reconciler.advance(view))
        armTimers()
    }

    /// A lone node needs no rounds by time, since every change there starts one; only copies of a bucket
    /// flush are polled.
    private func armTimers() {
        if wakeTimer.map({ reconciler.wakeAt < $0.at }) ?? (reconciler.wakeAt < .max) {
            wakeTimer?.timer.cancel()
            let at = reconciler.wakeAt
            let timer = member.lane.post(after: at > now ? at - now : 0) { [weak self] in
                guard let self else { return }
                executor.spawn { await self.advance() }
            }
            wakeTimer = (timer, at)
        }
        let isOpen =
            state.rebalance != nil || state.retry != nil || !state.deletedBuckets.isEmpty
            || state.buckets.contains { $0.flush != nil }
        guard roundTimer == nil, leadership != nil, state.nodes.count > 1 || isOpen else { return }
        roundTimer = member.lane.post(after: Self.intervalNanoseconds) { [weak self] in
            guard let self else { return }
            executor.spawn { await self.runTimedRound() }
        }
    }

    private func runTimedRound() {
        roundTimer = nil
        runRound()
    }

    private var view: LeaderView {
        let (state, status, now) = (state, member.driver.status, now)
        var beats = LeaderView.Beats(member.beats.table)
        beats.served = member.beats.served
        var log = LeaderView.Log()
        log.voters = status.configuration.voters
        log.learners = status.configuration.learners
        log.isJoint = status.configuration.isJoint
        log.commit = status.commit
        log.last = status.last
        log.laggard = status.laggard
        for (node, progress) in status.progress { log.matched[node] = progress.matched }
        for node in state.nodes.map(\.number) {
            beats.actsAsOf[node] = member.beats.actsAsOf(node)
            if !member.beats.isReady(node) { beats.unready.insert(node) }
            guard member.driver.hasHeard(node) else { continue }
            log.heard.insert(node)
            if member.driver.hasHeard(node, ticks: 5), member.calls.isConnected(to: node) {
                log.responsive.insert(node)
            }
        }
        var view = LeaderView(of: member.node, state, beats, now: now)
        view.wallMilliseconds = member.wallMilliseconds
        view.leadsSince = leadership?.since ?? now
        view.log = log
        view.renewedSecret = renewedSecret
        return view
    }

    /// The secret that follows a change of the members, or authorities that are missing or to be dropped; nil if
    /// none is due.
    private var renewedSecret: SharedSecret? {
        guard state.isProvisioned else { return nil }
        let isDue = !state.secret.isFor(state.members) || member.needsAuthorities(state)
        guard isDue, !reconciler.isRenewingSecret, let next = member.renewedSecret(state)
        else { return nil }
        // An authority that cannot be made is no reason to replace the secret again and again.
        return next.authorities != state.secret.authorities || !next.isFor(state.secret.boxes)
            ? next : nil
    }

    // MARK: Actions

    private func perform(_ actions: [LeaderAction]) {
        for action in actions {
            switch action {
            case .propose(let proposal, let call):
                run(call) { .outcome(await $0.propose(proposal)) }
            case .ask(let question, let call):
                let copies = CopyCalls(calls: member.calls, term: member.driver.status.term)
                run(call) { _ in await copies.ask(question) }
            case .changeVoters(let steps, let call):
                run(call) {
                    await $0.change(voters: steps)
                    return .done
                }
            case .transferLeadership(let node): member.driver.transfer(to: node)
            case .forgetBeats(let node): member.beats.forget(node)
            case .log(let level, let subject, let text):
                member.logEvent(Severity(level), EventLog.Kind(subject), text)
            case .answerFailover(let request, let result):
                failovers.removeValue(forKey: request)?.resume(returning: result)
            }
        }
    }

    private func run(
        _ call: UInt64,
        _ work: @escaping @Sendable (isolated Orchestrator) async -> ActionResult
    ) {
        executor.spawn { await self.finish(call, work) }
    }

    private func finish(
        _ call: UInt64,
        _ work: @Sendable (isolated Orchestrator) async -> ActionResult
    ) async {
        receive(await work(self), of: call)
    }

    /// Proposes as the leader; nil if the outcome is unknown or it failed.
    ///
    /// The proposal is not forwarded to another leader: that leader may have newer reports, and the
    /// proposal would be applied between its own steps.
    private func propose(_ proposal: LeaderAction.Proposal) async -> ClusterOutcome? {
        while isLeading {
            do throws(ClusterError) {
                return try await member.proposeAsLeader(proposal.command, by: proposal.login)
            } catch {
                if isLeading {
                    member.logEvent(
                        .warning,
                        .node,
                        "The cluster's leader could not complete a step and will retry: \(error)"
                    )
                }
            }
            // The outcome is unknown. Proposing again is harmless and makes it known.
            guard proposal.isRepeated, isLeading else { return nil }
            await executor.sleep(nanoseconds: Self.retryPauseNanoseconds)
        }
        return nil
    }

    private func change(voters steps: [VoterStep]) async {
        do throws(ClusterError) {
            let change = ConfigurationChange(steps.map { ConfigurationChange.Step($0) })
            _ = try await member.driver.change(change)
        } catch {
            member.logEvent(
                .warning,
                .node,
                "The cluster's voters could not be changed; the change is retried: \(error)"
            )
        }
    }

    // MARK: Requests of users, which other nodes pass on to the leader

    func answer(_ request: LeaderRequest) async -> LeaderAnswer {
        updateLeadership()
        guard leadership != nil else {
            return .refused("This node is not the leader of the cluster.")
        }
        switch request {
        case .failOver(let nodes, let login):
            switch await failOver(nodes, by: login) {
            case .done(_, let sentence): return .done(sentence)
            case .refused(let reason): return .refused(reason)
            }
        case .stopRebalance(let id):
            reconciler.stopRebalance(id)
            requestRound()
            return .done("")
        case .rebalanceReport: return .report(rebalanceReport)
        case .failoverReasons: return .reasons(reconciler.failover.reasons)
        case .epochReport: return .done(reconciler.epoch.sentence)
        }
    }

    private func failOver(_ nodes: [NodeNumber], by login: String) async -> FailoverResult {
        lastFailover += 1
        let request = lastFailover
        return await withUnsafeContinuation { waiter in
            failovers[request] = waiter
            perform(reconciler.failOver(nodes, by: login, request: request, view))
        }
    }

    private var rebalanceReport: RebalanceReport {
        guard let record = state.rebalance else { return RebalanceReport() }
        let run = reconciler.rebalance
        guard run.id == record.id, let progress = run.progress else {
            var report = RebalanceReport(record)
            report.obstacle = view.logObstacle.map { "It has not begun: \($0)" }
            return report
        }
        return RebalanceReport(progress, of: record, obstacle: run.obstacle)
    }
}

extension ConfigurationChange.Step {
    fileprivate init(_ step: VoterStep) {
        switch step {
        case .addVoter(let node): self = .addVoter(node)
        case .addLearner(let node): self = .addLearner(node)
        case .remove(let node): self = .remove(node)
        }
    }
}

extension Severity {
    fileprivate init(_ level: LeaderAction.Level) {
        switch level {
        case .info: self = .info
        case .warning: self = .warning
        case .error: self = .error
        }
    }
}

extension EventLog.Kind {
    fileprivate init(_ subject: LeaderAction.Subject) {
        switch subject {
        case .node: self = .node
        case .rebalance: self = .rebalance
        }
    }
}

/// The leader's calls to nodes about the copies of one bucket, many vBuckets per call.
///
/// A node that does not answer, or refuses, is missing from the result: the reconciler decides without
/// it.
struct CopyCalls: Sendable {
    let calls: PeerCalls
    let term: UInt64

    func ask(_ question: CopyQuestion) async -> ActionResult {
        switch question.kind {
        case .reports(let asked): .reports(await reports(PeerKind.reports, asked, for: question))
        case .seal(let asked): .reports(await reports(PeerKind.seal, asked, for: question))
        case .activate(let asked):
            .activated(
                await all(PeerKind.activate, asked, for: question) { bytes in
                    DoneAnswer(message: bytes).map { answer in Set(answer.done.map(\.vBucket)) }
                }
            )
        case .handOver(let asked):
            .handedOver(
                await all(PeerKind.handOver, asked, for: question) { DoneAnswer(message: $0)?.done }
                    .values.joined().reduce(into: [:]) { $0[$1.vBucket] = $1.seqno }
            )
        }
    }

    private func reports(
        _ kind: UInt16,
        _ asked: [NodeNumber: [FencedVBucket]],
        for question: CopyQuestion
    ) async -> CopyReports {
        await all(kind, asked, for: question) { bytes in
            guard let answer = ReportsAnswer(message: bytes), answer.refusal.isEmpty else {
                return nil
            }
            return Dictionary(
                answer.reports.map { ($0.vBucket, $0) },
                uniquingKeysWith: { first, _ in first }
            )
        }
    }

    /// Sends all calls at once; returns the answers that arrived in time.
    private func all<Subject: LeaderSubject, Answer: Sendable>(
        _ kind: UInt16,
        _ asked: [NodeNumber: [Subject]],
        for question: CopyQuestion,
        read: @escaping @Sendable ([UInt8]) -> Answer?
    ) async -> [NodeNumber: Answer] {
        await withTaskGroup(of: (NodeNumber, Answer?).self) { group in
            for (node, subjects) in asked.sorted(by: { $0.key < $1.key }) {
                let call = LeaderCall(
                    term: term,
                    index: question.index,
                    bucketUUID: question.bucketUUID,
                    subjects: subjects
                ).encoded
                group.addTask { [calls] in  // tidy:allow a child of a task that is on the lane
                    let result = await calls.call(
                        kind,
                        call,
                        to: node,
                        timeoutNanoseconds: question.timeoutNanoseconds
                    )
                    guard case .success(let bytes) = result else { return (node, nil) }
                    return (node, read(bytes))
                }
            }
            var answers: [NodeNumber: Answer] = [:]
            for await (node, answer) in group { answers[node] = answer }
            return answers
        }
    }
}
