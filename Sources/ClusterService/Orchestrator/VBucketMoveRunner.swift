internal import Orchestration
internal import Seams
internal import Vocabulary

/// Carries out the moves of one bucket: asks copies for reports, passes events to the moves, and
/// does what the moves decide, for many vBuckets with one call and one entry.
///
/// Calls, entries and hand-overs run concurrently; each result starts the next round at once.
///
/// - Runs on the control lane, as part of the orchestrator.
/// - Keeps no state that is not in the copies' reports or the cluster map: a new leader's runner
///   begins from those.
final class VBucketMoveRunner: @unchecked Sendable {  // tidy:allow belongs to the control lane
    /// How the moves of the bucket ended.
    enum Result {
        case done
        /// The bucket must be planned again: nodes were lost, or vBuckets were moved otherwise.
        case again
        case stopped
        case failed(String)
        /// This node is no longer the leader; the next leader continues.
        case left
    }

    /// The pause before a round without a cause: for timeouts and for changes that wake no round.
    private static let pauseNanoseconds: UInt64 = 50_000_000
    /// How long to gather changes before moves are started and an entry is proposed.
    static let gatherPauseNanoseconds: UInt64 = 10_000_000
    static let questionPauseNanosecondsMin: UInt64 = 5_000_000
    static let questionPauseNanosecondsMax: UInt64 = 50_000_000

    let orchestrator: Orchestrator
    let bucket: String
    let record: RebalanceRecord
    let alarm: LaneAlarm
    var schedule: MoveSchedule
    var moves: [VBucketID: MoveProcedure] = [:]
    var events: [(VBucketID, MoveEvent)] = []
    var actions: [(VBucketID, MoveAction)] = []
    /// By vBucket: a log index that was applied here when the second chain already counted.
    var jointSince: [VBucketID: UInt64] = [:]
    var lost: Set<NodeNumber> = []
    /// Proposals under way, including what follows their outcome.
    var openProposals = 0
    /// Nodes with a reports call under way.
    var asked: Set<NodeNumber> = []
    /// Nodes that did not answer their last reports call.
    var silent: Set<NodeNumber> = []
    var askedAt: UInt64 = 0
    var nextQuestion: UInt64 = 0
    var questionPauseNanoseconds = questionPauseNanosecondsMin
    /// The map's targets lack the rows of running moves.
    var targetsAreDue = false
    /// When entries that no client waits for may be proposed again.
    var nextPatientEntry: UInt64 = 0
    /// A move changed its phase or ended: other moves may be started.
    private var hasNews = true
    /// A move made a step since the last call of `noteStep`.
    private var hasAdvanced = false
    private var nextStart: UInt64 = 0
    private var mustPlanAgain = false
    private var isStopping = false
    private var failure: String?
    /// Since when moves wait and none runs because a node does not answer; nil otherwise.
    var idleSince: UInt64?

    init(
        _ orchestrator: Orchestrator,
        bucket: String,
        record: RebalanceRecord,
        moves: [PlannedMove]
    ) {
        self.orchestrator = orchestrator
        self.bucket = bucket
        self.record = record
        alarm = LaneAlarm(orchestrator.executor.lane)
        schedule = MoveSchedule(waiting: moves)
    }

    func run() async -> Result {
        await orchestrator.isolated { orchestrator in
            let result = await self.run(orchestrator)
            orchestrator.rebalancing.handedOver = []
            return result
        }
    }

    private func run(_ orchestrator: isolated Orchestrator) async -> Result {
        schedule.movesPerNode = Int(orchestrator.state.settings.movesPerNode)
        while true {
            guard orchestrator.isLeading, orchestrator.state.rebalance?.id == record.id,
                let bucket = orchestrator.state.bucket(named: bucket)
            else { return orchestrator.isLeading ? .done : .left }
            if orchestrator.mustStop { stop() }
            updateNodes(orchestrator)
            queueOvertakenMoves(bucket)
            dropSurplus(bucket)
            startMoves(bucket, orchestrator)
            deliverEvents(orchestrator.now)
            act(orchestrator)
            retireFinishedMoves(orchestrator)
            act(orchestrator)
            orchestrator.markProgress()
            ask(bucket, orchestrator)
            if moves.isEmpty, openProposals == 0, events.isEmpty, actions.isEmpty {
                if let failure { return .failed(failure) }
                if isStopping { return .stopped }
                if schedule.waiting.isEmpty { return mustPlanAgain ? .again : .done }
            }
            var pause =
                moves.isEmpty
                ? Self.pauseNanoseconds : min(Self.pauseNanoseconds, questionPauseNanoseconds)
            if hasNews || !actions.isEmpty { pause = min(pause, Self.gatherPauseNanoseconds) }
            await alarm.wait(nanoseconds: pause)
        }
    }

    private func stop() {
        guard !isStopping else { return }
        isStopping = true
        schedule.waiting = []
        for vBucket in moves.keys.sorted() { events.append((vBucket, .stop)) }
    }

    func fail(_ sentence: String) {
        if failure == nil { failure = sentence }
        stop()
    }

    /// Queues events for nodes that stopped answering, answer again, or were failed over.
    private func updateNodes(_ orchestrator: isolated Orchestrator) {
        // Includes nodes with a recovery type set since: this rebalance does not wait for them.
        let failed = orchestrator.failedOver.sorted()
        let dead = Set(orchestrator.deadNodes()).subtracting(failed)
        for node in dead.subtracting(lost).sorted() { queueEvent(.lost(node), of: node) }
        for node in lost.subtracting(dead).sorted() { queueEvent(.returned(node), of: node) }
        if dead != lost { hasNews = true }
        lost = dead
        schedule.absent = dead
        guard !failed.isEmpty else { return }
        for node in failed { queueEvent(.failedOver(node), of: node) }
        let count = schedule.waiting.count
        schedule.waiting.removeAll { $0.nodes.contains(where: failed.contains) }
        if schedule.waiting.count < count { mustPlanAgain = true }
    }

    /// Queues a refusal for vBuckets whose placement was changed by another entry than this
    /// runner's: entries that the previous leader proposed may be applied after it.
    private func queueOvertakenMoves(_ bucket: BucketRecord) {
        let overtaken = moves.filter { vBucket, move in
            let placement = bucket[vBucket]
            let isAsAgreed = placement.fence == move.fence && placement.isJoint == move.isJoint
            return move.wantsReports && !isAsAgreed
        }
        for vBucket in overtaken.keys.sorted() { events.append((vBucket, .refused)) }
    }

    /// Drops moves to more copies than the bucket's current number of replicas.
    ///
    /// A move that has entered two chains continues, as the next plan would bring it to the same
    /// end.
    private func dropSurplus(_ bucket: BucketRecord) {
        let copies = bucket.settings.replicas + 1
        for (vBucket, move) in moves.sorted(by: { $0.key < $1.key })
        where move.move.target.count > copies && (move.step == .building || move.step == .paused) {
            events.append((vBucket, .planChanged))
        }
        let count = schedule.waiting.count
        schedule.waiting.removeAll { move in
            let placement = bucket[move.vBucket]
            let isBegun = placement.isJoint || placement.former != nil
            return move.target.count > copies && !isBegun
        }
        if schedule.waiting.count < count { mustPlanAgain = true }
    }

    private func queueEvent(_ event: MoveEvent, of node: NodeNumber) {
        for (vBucket, move) in moves.sorted(by: { $0.key < $1.key })
        where move.move.nodes.contains(node) {
            events.append((vBucket, event))
        }
    }

    private var running: [MoveSchedule.Running] {
        moves.values.map { .init($0.move, $0.phase) }
    }

    /// Starts as many moves as the nodes can carry and adds their rows to the map's targets, from
    /// which copies are built.
    private func startMoves(_ bucket: BucketRecord, _ orchestrator: isolated Orchestrator) {
        let now = orchestrator.now
        if hasNews, now >= nextStart {
            hasNews = false
            nextStart = now + Self.gatherPauseNanoseconds
            for move in schedule.start(running: running) { begin(move, bucket, orchestrator) }
        }
        if targetsAreDue, openProposals == 0 { setTargets(bucket, orchestrator) }
        let ready = moves.values.filter { $0.wantsTurn(now: now) }.map(\.move)
            .sorted { $0.vBucket < $1.vBucket }
        guard !ready.isEmpty else { return }
        for move in schedule.takeOvers(of: ready, running: running) {
            deliver(.turn, to: move.vBucket, now)
        }
    }

    private func begin(
        _ move: PlannedMove,
        _ bucket: BucketRecord,
        _ orchestrator: isolated Orchestrator
    ) {
        let placement = bucket[move.vBucket]
        guard move.source != nil else {
            actions.append((move.vBucket, .build(move.target)))
            return
        }
        guard placement.chain.nodes == move.row, placement.isConfirmed else {
            mustPlanAgain = true
            return
        }
        var procedure = MoveProcedure(
            move,
            fence: placement.fence,
            demand: bucket.settings.type == .ephemeral ? .ephemeral : .majority,
            now: orchestrator.now,
            beginning: placement.isJoint ? .joint : placement.former != nil ? .former : .row
        )
        actions += procedure.begin().map { (move.vBucket, $0) }
        moves[move.vBucket] = procedure
        jointSince[move.vBucket] = placement.isJoint ? orchestrator.state.index : nil
        targetsAreDue = true
        expectChange()
    }

    // MARK: Delivering events

    private func deliverEvents(_ now: UInt64) {
        while !events.isEmpty {
            let due = events
            events = []
            for (vBucket, event) in due { deliver(event, to: vBucket, now) }
        }
        let due = moves.filter { $0.value.nextTime.map { $0 <= now } ?? false }
        for vBucket in due.keys.sorted() { deliver(.time, to: vBucket, now) }
    }

    private func deliver(_ event: MoveEvent, to vBucket: VBucketID, _ now: UInt64) {
        guard var move = moves[vBucket] else { return }
        let (step, phase) = (move.step, move.phase)
        actions += move.handle(event, now: now).map { (vBucket, $0) }
        if move.phase != phase { hasNews = true }
        if move.step != step || move.phase != phase {
            hasAdvanced = true
            expectChange()
        }
        moves[vBucket] = move
    }

    /// A change is expected: ask for reports again soon.
    func expectChange() {
        questionPauseNanoseconds = Self.questionPauseNanosecondsMin
        nextQuestion = min(nextQuestion, askedAt + Self.questionPauseNanosecondsMin)
    }

    // MARK: Ending

    private func retireFinishedMoves(_ orchestrator: isolated Orchestrator) {
        if hasAdvanced { orchestrator.noteStep() }
        hasAdvanced = false
        let ended = moves.compactMapValues(\.outcome)
        for (vBucket, outcome) in ended.sorted(by: { $0.key < $1.key }) {
            moves[vBucket] = nil
            hasNews = true
            switch outcome {
            case .done: orchestrator.showProgress { $0?.finished(vBucket) }
            case .superseded, .needsPromotion, .needsPlan: mustPlanAgain = true
            case .stopped: break
            case .failed(let obstacle):
                fail(obstacle.sentence(bucket: bucket, naming: { orchestrator.name($0) }))
            }
        }
        orchestrator.rebalancing.bucket = bucket
        orchestrator.rebalancing.handedOver = Set(
            moves.filter { $0.value.isHandedOver }.map(\.key)
        )
        show(orchestrator)
    }
}

extension Orchestrator {
    /// Runs `body` isolated to the orchestrator.
    func isolated<Result: Sendable>(
        _ body: @Sendable (isolated Orchestrator) async -> Result
    ) async -> Result {
        await body(self)
    }
}
