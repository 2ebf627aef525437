internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Carries out the moves of one bucket: asks the copies, tells the moves, does what they say, many
/// vBuckets with one question and one entry.
///
/// Questions, entries and hand overs are under way beside each other; whatever comes of one of them
/// begins the next round at once.
///
/// - Runs on the control lane, as part of the orchestrator.
/// - What it believes is in the reports and the map: a new leader's crew begins from those.
final class MoveCrew: @unchecked Sendable {  // tidy:allow belongs to the control lane
    enum Result {
        case done
        /// The bucket is to be planned again: nodes were lost, or somebody else moved vBuckets.
        case again
        case stopped
        case failed(String)
        case left
    }

    /// A round that nothing asks for, for the clock and for what is seen only by looking.
    private static let pause: UInt64 = 50_000_000
    /// What is noticed meanwhile goes into the same look for moves to start, and into one entry.
    static let gatherPause: UInt64 = 10_000_000
    static let questionPauseMin: UInt64 = 5_000_000
    static let questionPauseMax: UInt64 = 50_000_000

    let orchestrator: Orchestrator
    let bucket: String
    let record: RebalanceRecord
    let alarm: LaneAlarm
    var schedule: MoveSchedule
    var moves: [VBucketID: MoveProcedure] = [:]
    var events: [(VBucketID, MoveEvent)] = []
    var actions: [(VBucketID, MoveAction)] = []
    /// An index that was applied here when the second chain counted already.
    var jointSince: [VBucketID: UInt64] = [:]
    var lost: Set<NodeNumber> = []
    /// Entries that were proposed, and what belongs to them.
    var openProposals = 0
    /// Nodes that have a question to answer.
    var asked: Set<NodeNumber> = []
    /// Nodes that had nothing to say to their last question.
    var silent: Set<NodeNumber> = []
    var askedAt: UInt64 = 0
    var nextQuestion: UInt64 = 0
    var questionPause = questionPauseMin
    /// The rows of moves that run are not in the map yet.
    var targetsAreDue = false
    /// When entries for which nobody waits may be proposed again.
    var nextPatientEntry: UInt64 = 0
    /// A move is in another phase, or ended: there may be room for others.
    private var hasNews = true
    /// A move took a step since anybody was told.
    private var wentOn = false
    private var nextStart: UInt64 = 0
    private var mustPlanAgain = false
    private var isStopping = false
    private var failure: String?
    /// Since when moves wait and none runs, because a node is absent.
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
            watch(orchestrator)
            notice(bucket)
            dropSurplus(bucket)
            startMoves(bucket, orchestrator)
            tell(orchestrator.now)
            act(orchestrator)
            settle(orchestrator)
            act(orchestrator)
            orchestrator.markProgress()
            ask(bucket, orchestrator)
            if moves.isEmpty, openProposals == 0, events.isEmpty, actions.isEmpty {
                if let failure { return .failed(failure) }
                if isStopping { return .stopped }
                if schedule.waiting.isEmpty { return mustPlanAgain ? .again : .done }
            }
            var pause = moves.isEmpty ? Self.pause : min(Self.pause, questionPause)
            if hasNews || !actions.isEmpty { pause = min(pause, Self.gatherPause) }
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

    /// Nodes that fall silent, come back, or were failed over meanwhile.
    private func watch(_ orchestrator: isolated Orchestrator) {
        // Also of whom somebody said since how it is to come back: for this rebalance it is gone.
        let failed = orchestrator.failedOver.sorted()
        let dead = Set(orchestrator.deadNodes()).subtracting(failed)
        for node in dead.subtracting(lost).sorted() { tellAll(.lost(node), of: node) }
        for node in lost.subtracting(dead).sorted() { tellAll(.returned(node), of: node) }
        if dead != lost { hasNews = true }
        lost = dead
        schedule.absent = dead
        guard !failed.isEmpty else { return }
        for node in failed { tellAll(.failedOver(node), of: node) }
        let count = schedule.waiting.count
        schedule.waiting.removeAll { $0.nodes.contains(where: failed.contains) }
        if schedule.waiting.count < count { mustPlanAgain = true }
    }

    /// vBuckets that somebody else gave another active copy, or brought into two chains or out of
    /// them: what the leader of before has proposed may be applied under this one.
    private func notice(_ bucket: BucketRecord) {
        let overtaken = moves.filter { vBucket, move in
            let placement = bucket[vBucket]
            let isAsAgreed = placement.fence == move.fence && placement.isJoint == move.isJoint
            return move.wantsReports && !isAsAgreed
        }
        for vBucket in overtaken.keys.sorted() { events.append((vBucket, .refused)) }
    }

    /// Moves to more copies than somebody wants since: nobody builds what targets leave out.
    ///
    /// What a crew before this one has agreed on already goes on, with as many: the next plan would be
    /// the same again.
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

    private func tellAll(_ event: MoveEvent, of node: NodeNumber) {
        for (vBucket, move) in moves.sorted(by: { $0.key < $1.key })
        where move.move.nodes.contains(node) {
            events.append((vBucket, event))
        }
    }

    private var running: [MoveSchedule.Running] {
        moves.values.map { .init($0.move, $0.phase) }
    }

    /// Begins as many moves as the nodes can bear, and puts their rows into the map's targets, by
    /// which copies are built: all at once would be more than that.
    private func startMoves(_ bucket: BucketRecord, _ orchestrator: isolated Orchestrator) {
        let now = orchestrator.now
        if hasNews, now >= nextStart {
            hasNews = false
            nextStart = now + Self.gatherPause
            for move in schedule.start(running: running) { begin(move, bucket, orchestrator) }
        }
        if targetsAreDue, openProposals == 0 { setTargets(bucket, orchestrator) }
        let ready = moves.values.filter { $0.wantsTurn(now: now) }.map(\.move)
            .sorted { $0.vBucket < $1.vBucket }
        guard !ready.isEmpty else { return }
        for move in schedule.takeOvers(of: ready, running: running) {
            give(.turn, to: move.vBucket, now)
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
        soon()
    }

    // MARK: Telling

    private func tell(_ now: UInt64) {
        while !events.isEmpty {
            let due = events
            events = []
            for (vBucket, event) in due { give(event, to: vBucket, now) }
        }
        let due = moves.filter { $0.value.nextTime.map { $0 <= now } ?? false }
        for vBucket in due.keys.sorted() { give(.time, to: vBucket, now) }
    }

    private func give(_ event: MoveEvent, to vBucket: VBucketID, _ now: UInt64) {
        guard var move = moves[vBucket] else { return }
        let (step, phase) = (move.step, move.phase)
        actions += move.handle(event, now: now).map { (vBucket, $0) }
        if move.phase != phase { hasNews = true }
        if move.step != step || move.phase != phase {
            wentOn = true
            soon()
        }
        moves[vBucket] = move
    }

    /// Something is about to happen: questions are worth their answers.
    func soon() {
        questionPause = Self.questionPauseMin
        nextQuestion = min(nextQuestion, askedAt + Self.questionPauseMin)
    }

    // MARK: Ending

    private func settle(_ orchestrator: isolated Orchestrator) {
        if wentOn { orchestrator.noteStep() }
        wentOn = false
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
    /// Runs `body` where the orchestrator's state may be touched.
    func isolated<Result: Sendable>(
        _ body: @Sendable (isolated Orchestrator) async -> Result
    ) async -> Result {
        await body(self)
    }
}
