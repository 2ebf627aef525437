internal import Vocabulary

/// The moves of one bucket: asks copies for reports, passes events to the moves, and gathers what the moves
/// decide, for many vBuckets with one call and one entry.
///
/// Calls, entries and hand-overs run concurrently; each result starts the next step at once.
///
/// It keeps no state that is not in the copies' reports or the cluster map: a new leader begins from those.
struct BucketMoves: Sendable {
    /// How the moves of the bucket ended.
    enum Ending: Sendable {
        case done
        /// The bucket must be planned again: nodes were lost, or vBuckets were moved otherwise.
        case again
        case stopped
        case failed(String)
    }

    /// An output of a step, to be carried out by the reconciler.
    enum Effect: Sendable {
        case propose(BulkEntryKind, [VBucketSteps.Step])
        case recreate([VBucketSteps.Step])
        case setTargets(TargetChange)
        case ask(NodeNumber, [FencedVBucket])
        case handOver(NodeNumber, [FencedVBucket])
        /// The vBucket's move is complete.
        case finished(VBucketID)
    }

    /// The pause before a step without a cause: for timeouts and for changes that cause no step.
    static let pauseNanoseconds: UInt64 = 50_000_000
    /// How long to gather changes before moves are started and an entry is proposed.
    static let gatherPauseNanoseconds: UInt64 = 10_000_000
    static let questionPauseNanosecondsMin: UInt64 = 5_000_000
    static let questionPauseNanosecondsMax: UInt64 = 50_000_000
    static let retryPauseNanoseconds: UInt64 = 200_000_000

    /// The calls for reports.
    struct Questions: Sendable {
        /// Nodes with a call under way.
        var asked: Set<NodeNumber> = []
        /// Nodes that did not answer their last call.
        var silent: Set<NodeNumber> = []
        var askedAt: UInt64 = 0
        var nextAt: UInt64 = 0
        var pauseNanoseconds = questionPauseNanosecondsMin
    }

    /// The work that is due, and when.
    struct Dues: Sendable {
        /// A move changed its phase or ended: other moves may be started.
        var hasNews = true
        /// A move made a step.
        var hasAdvanced = false
        var nextStart: UInt64 = 0
        /// The map's targets lack the rows of running moves.
        var targetsAreDue = false
        var nextTargets: UInt64 = 0
        /// When entries that no client waits for may be proposed again.
        var nextPatientEntry: UInt64 = 0
    }

    /// Why the moves end.
    struct End: Sendable {
        var mustPlanAgain = false
        var isStopping = false
        var failure: String?
        /// Since when moves wait and none runs because a node does not answer; nil otherwise.
        var idleSince: UInt64?
    }

    let bucket: String
    /// Distinguishes these moves from earlier ones, whose answers may arrive late.
    let number: UInt64
    var schedule: MoveSchedule
    var moves: [VBucketID: MoveProcedure] = [:]
    var events: [(VBucketID, MoveEvent)] = []
    var actions: [(VBucketID, MoveAction)] = []
    /// By vBucket: a log index that was applied here when the second chain already counted.
    var jointSince: [VBucketID: UInt64] = [:]
    var lost: Set<NodeNumber> = []
    /// Proposals under way, including what follows their outcome.
    var openProposals = 0
    var questions = Questions()
    var dues = Dues()
    var end = End()

    init(bucket: String, number: UInt64, moves: [PlannedMove]) {
        self.bucket = bucket
        self.number = number
        schedule = MoveSchedule(waiting: moves)
    }

    /// vBuckets between two owners, as planned.
    var handedOver: Set<VBucketID> { Set(moves.filter { $0.value.isHandedOver }.map(\.key)) }

    /// Whether a move made a step since the last call.
    mutating func takeAdvance() -> Bool {
        defer { dues.hasAdvanced = false }
        return dues.hasAdvanced
    }

    // MARK: Steps

    /// Makes the next step.
    ///
    /// - Parameters:
    ///   - record: The bucket's current record.
    ///   - view: The leader's knowledge.
    /// - Returns: The effects to carry out, in order.
    mutating func next(_ record: BucketRecord, _ view: LeaderView) -> [Effect] {
        schedule.movesPerNode = Int(view.state.settings.movesPerNode)
        var effects: [Effect] = []
        updateNodes(view)
        queueOvertakenMoves(record)
        dropSurplus(record)
        startMoves(record, view, into: &effects)
        deliverEvents(view.now)
        gather(record, view, into: &effects)
        retireFinishedMoves(view, into: &effects)
        gather(record, view, into: &effects)
        ask(view.now, into: &effects)
        return effects
    }

    /// How the moves ended; nil while one is open.
    var ending: Ending? {
        guard moves.isEmpty, openProposals == 0, events.isEmpty, actions.isEmpty,
            !dues.targetsAreDue
        else { return nil }
        if let failure = end.failure { return .failed(failure) }
        if end.isStopping { return .stopped }
        guard schedule.waiting.isEmpty else { return nil }
        return end.mustPlanAgain ? .again : .done
    }

    /// When to make the next step without a cause.
    func nextTime(now: UInt64) -> UInt64 {
        var pause =
            moves.isEmpty
            ? Self.pauseNanoseconds : min(Self.pauseNanoseconds, questions.pauseNanoseconds)
        if dues.hasNews || !actions.isEmpty || !events.isEmpty {
            pause = min(pause, Self.gatherPauseNanoseconds)
        }
        return now + pause
    }

    mutating func stop() {
        guard !end.isStopping else { return }
        end.isStopping = true
        schedule.waiting = []
        for vBucket in moves.keys.sorted() { events.append((vBucket, .stop)) }
    }

    mutating func fail(_ sentence: String) {
        if end.failure == nil { end.failure = sentence }
        stop()
    }

    /// Queues events for nodes that stopped answering, answer again, or were failed over.
    mutating func updateNodes(_ view: LeaderView) {
        // Includes nodes with a recovery type set since: this rebalance does not wait for them.
        let failed = view.failedOver.sorted()
        let dead = Set(view.deadNodes).subtracting(failed)
        for node in dead.subtracting(lost).sorted() { queueEvent(.lost(node), of: node) }
        for node in lost.subtracting(dead).sorted() { queueEvent(.returned(node), of: node) }
        if dead != lost { dues.hasNews = true }
        lost = dead
        schedule.absent = dead
        guard !failed.isEmpty else { return }
        for node in failed { queueEvent(.failedOver(node), of: node) }
        let count = schedule.waiting.count
        schedule.waiting.removeAll { $0.nodes.contains(where: failed.contains) }
        if schedule.waiting.count < count { end.mustPlanAgain = true }
    }

    /// Queues a refusal for vBuckets whose placement was changed by another entry than these
    /// moves': entries that the previous leader proposed may be applied after it.
    mutating func queueOvertakenMoves(_ bucket: BucketRecord) {
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
    mutating func dropSurplus(_ bucket: BucketRecord) {
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
        if schedule.waiting.count < count { end.mustPlanAgain = true }
    }

    mutating func queueEvent(_ event: MoveEvent, of node: NodeNumber) {
        for (vBucket, move) in moves.sorted(by: { $0.key < $1.key })
        where move.move.nodes.contains(node) {
            events.append((vBucket, event))
        }
    }

    var running: [MoveSchedule.Running] {
        moves.values.map { .init($0.move, $0.phase) }
    }

    /// Starts as many moves as the nodes can carry and adds their rows to the map's targets, from
    /// which copies are built.
    mutating func startMoves(
        _ bucket: BucketRecord,
        _ view: LeaderView,
        into effects: inout [Effect]
    ) {
        let now = view.now
        if dues.hasNews, now >= dues.nextStart {
            dues.hasNews = false
            dues.nextStart = now + Self.gatherPauseNanoseconds
            for move in schedule.start(running: running) { begin(move, of: bucket, view) }
        }
        if dues.targetsAreDue, openProposals == 0, now >= dues.nextTargets {
            setTargets(bucket, view, into: &effects)
        }
        let ready = moves.values.filter { $0.wantsTurn(now: now) }.map(\.move)
            .sorted { $0.vBucket < $1.vBucket }
        guard !ready.isEmpty else { return }
        for move in schedule.takeOvers(of: ready, running: running) {
            deliver(.turn, to: move.vBucket, now)
        }
    }

    mutating func begin(_ move: PlannedMove, of bucket: BucketRecord, _ view: LeaderView) {
        let placement = bucket[move.vBucket]
        guard move.source != nil else {
            actions.append((move.vBucket, .build(move.target)))
            return
        }
        guard placement.chain.nodes == move.row, placement.isConfirmed else {
            end.mustPlanAgain = true
            return
        }
        var procedure = MoveProcedure(
            move,
            fence: placement.fence,
            demand: bucket.settings.type == .ephemeral ? .ephemeral : .majority,
            now: view.now,
            beginning: placement.isJoint ? .joint : placement.former != nil ? .former : .row
        )
        actions += procedure.begin().map { (move.vBucket, $0) }
        moves[move.vBucket] = procedure
        jointSince[move.vBucket] = placement.isJoint ? view.state.index : nil
        dues.targetsAreDue = true
        expectChange()
    }

    mutating func setTargets(
        _ bucket: BucketRecord,
        _ view: LeaderView,
        into effects: inout [Effect]
    ) {
        dues.targetsAreDue = false
        let kept = view.state.rebalance?.kept ?? []
        let copies = bucket.settings.replicas + 1
        let rows = bucket.numberedPlacements.map { vBucket, placement in
            let move = moves[vBucket]?.move
            let row = move.flatMap { NodeChain($0.target) } ?? placement.chain
            return NodeChain(row.filter { kept.contains($0) }.prefix(copies)) ?? NodeChain()
        }
        let targets = BucketTargets(copies: UInt8(copies), rows: rows)
        effects.append(.setTargets(TargetChange(bucket: self.bucket, targets: targets)))
        openProposals += 1
    }

    /// Handles the outcome of new targets: those that were not agreed on are proposed again.
    mutating func handleTargets(isApplied: Bool, now: UInt64) {
        endProposal()
        guard !isApplied else { return }
        dues.targetsAreDue = true
        dues.nextTargets = now + Self.retryPauseNanoseconds
    }

    // MARK: Events

    mutating func deliverEvents(_ now: UInt64) {
        while !events.isEmpty {
            let due = events
            events = []
            for (vBucket, event) in due { deliver(event, to: vBucket, now) }
        }
        let due = moves.filter { $0.value.nextTime.map { $0 <= now } ?? false }
        for vBucket in due.keys.sorted() { deliver(.time, to: vBucket, now) }
    }

    mutating func deliver(_ event: MoveEvent, to vBucket: VBucketID, _ now: UInt64) {
        guard var move = moves[vBucket] else { return }
        let (step, phase) = (move.step, move.phase)
        actions += move.handle(event, now: now).map { (vBucket, $0) }
        if move.phase != phase { dues.hasNews = true }
        if move.step != step || move.phase != phase {
            dues.hasAdvanced = true
            expectChange()
        }
        moves[vBucket] = move
    }

    /// A change is expected: ask for reports again soon.
    mutating func expectChange() {
        questions.pauseNanoseconds = Self.questionPauseNanosecondsMin
        questions.nextAt = min(
            questions.nextAt,
            questions.askedAt + Self.questionPauseNanosecondsMin
        )
    }

    mutating func retireFinishedMoves(_ view: LeaderView, into effects: inout [Effect]) {
        let ended = moves.compactMapValues(\.outcome)
        for (vBucket, outcome) in ended.sorted(by: { $0.key < $1.key }) {
            moves[vBucket] = nil
            dues.hasNews = true
            switch outcome {
            case .done: effects.append(.finished(vBucket))
            case .superseded, .needsPromotion, .needsPlan: end.mustPlanAgain = true
            case .stopped: break
            case .failed(let obstacle):
                fail(obstacle.sentence(bucket: bucket, naming: { view.name($0) }))
            }
        }
    }
}

/// The sentence that tells an operator what the moves wait for, with the node's name.
extension BucketMoves {
    /// The sentence that tells an operator what the slowest move waits for, or why no move can be started.
    ///
    /// Fails the moves if none could be started for long.
    mutating func obstacle(_ view: LeaderView) -> String? {
        let absent = moves.values.lazy.compactMap(\.obstacle).first { $0.cause == .nodeAbsent }
        if let obstacle = absent ?? firstObstacle(view) {
            end.idleSince = nil
            return sentence(obstacle, view)
        }
        guard let move = schedule.waiting.first else {
            end.idleSince = nil
            return openProposals > 0 || !actions.isEmpty ? view.logObstacle : nil
        }
        guard let node = move.nodes.filter({ lost.contains($0) }).min() else {
            end.idleSince = nil
            return sentence(view.agreement(on: move.vBucket, at: .building), view)
        }
        let obstacle = MoveObstacle(
            vBucket: move.vBucket,
            step: .building,
            node: node,
            cause: .nodeAbsent
        )
        let text = sentence(obstacle, view)
        let since = end.idleSince ?? view.now
        end.idleSince = since
        if view.now >= since + Limits.moveStalledMilliseconds * 1_000_000 { fail(text) }
        return text
    }

    private func firstObstacle(_ view: LeaderView) -> MoveObstacle? {
        guard let (vBucket, move) = moves.min(by: { $0.key < $1.key }) else { return nil }
        switch move.step {
        case .joining, .finishing, .takingOver, .reverting:
            return view.agreement(on: vBucket, at: move.step)
        default: break
        }
        guard var obstacle = move.obstacle else {
            return view.agreement(on: vBucket, at: move.step)
        }
        guard obstacle.cause == .hasNotAnswered || questions.silent.contains(obstacle.node) else {
            return obstacle
        }
        // A node that is behind in the log answers only after it has applied the caller's entries.
        let missing = view.log.missing(on: obstacle.node)
        obstacle.cause = missing > 0 ? .notInLog(entries: missing) : .hasNotAnswered
        return obstacle
    }

    private func sentence(_ obstacle: MoveObstacle, _ view: LeaderView) -> String {
        obstacle.sentence(bucket: bucket, naming: { view.name($0) })
    }
}
