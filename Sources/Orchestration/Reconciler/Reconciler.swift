package import Vocabulary

/// The leader's decisions: makes the cluster match the agreed state.
///
/// A value without I/O: `next` starts what a `LeaderView` calls for, `receive` continues what waited for an
/// answer, and both return actions. Each rule is an extension, with its policy in a type of this module.
///
/// - It keeps nothing that a new leader would need: what was begun is in the agreed state.
/// - A proposed step may be applied long after it was decided. So each names its precondition (a fence, a
///   stage, a rebalance's id, that nothing is lost), and has no effect if the precondition is gone.
/// - A job runs once at a time. A round that finds it running is repeated at its end.
package struct Reconciler: Sendable {
    /// Work that must not run twice at a time.
    enum Job: Hashable, Sendable {
        case epoch
        case voters
        case featureLevel
        case secret
        case join(NodeNumber)
        case deletion(DeletedBucket)
        case flush(String)
        /// Promotions, unserved copies and former owners of a bucket, one after another.
        case copies(String)
        case lossEstimate
        case automaticFailover
        case retry
    }

    typealias Continuation = @Sendable (inout Reconciler, LeaderView) -> Void
    typealias BoolContinuation = @Sendable (inout Reconciler, Bool, LeaderView) -> Void
    private typealias ResultContinuation =
        @Sendable (inout Reconciler, ActionResult, LeaderView) -> Void

    private var waiting: [UInt64: ResultContinuation] = [:]
    private var lastCall: UInt64 = 0
    private var running: Set<Job> = []
    /// Jobs that a round found running.
    private var overdue: Set<Job> = []
    private var isRoundDue = false
    var actions: [LeaderAction] = []
    /// When `advance` is due without a cause; `.max` if only changes need it.
    package internal(set) var wakeAt: UInt64 = .max

    var waits = LeaderWaits()
    package internal(set) var failover = FailoverProgress()
    package internal(set) var rebalance = RebalanceRun()
    package internal(set) var epoch = EpochProgress()

    package init() {}

    // MARK: Rounds

    /// Decides the next steps after a change, or when time has passed.
    package mutating func next(_ view: LeaderView) -> [LeaderAction] {
        wakeAt = .max
        runRules(view)
        return takeActions()
    }

    /// Makes the next step of the running rebalance, at `wakeAt`.
    package mutating func advance(_ view: LeaderView) -> [LeaderAction] {
        wakeAt = .max
        advanceRebalance(view)
        return takeActions()
    }

    /// Continues the procedure that waited for the result of a call; ignores results of an earlier leadership.
    package mutating func receive(
        _ result: ActionResult,
        of call: UInt64,
        _ view: LeaderView
    ) -> [LeaderAction] {
        guard let continuation = waiting.removeValue(forKey: call) else { return [] }
        continuation(&self, result, view)
        if isRoundDue {
            runRules(view)
        } else {
            advanceRebalance(view)
        }
        return takeActions()
    }

    /// Starts a failover that an operator requested; `.answerFailover` ends it.
    package mutating func failOver(
        _ nodes: [NodeNumber],
        by login: String,
        request: UInt64,
        _ view: LeaderView
    ) -> [LeaderAction] {
        failOver(FailoverOrder(nodes: nodes, login: login, request: request), view)
        return takeActions()
    }

    /// Stops the rebalance with this id after the moves under way, even if this leader has not begun it; completed
    /// moves stay.
    package mutating func stopRebalance(_ id: String) {
        waits.rebalanceToStop = id
        if id == rebalance.id { rebalance.mustStop = true }
    }

    /// Drops all work: another node leads, or may lead.
    ///
    /// - Returns: The answers to the failovers in progress.
    package mutating func stopLeading() -> [LeaderAction] {
        let answers = failover.requests.sorted { $0.key < $1.key }
            .map { LeaderAction.answerFailover($0.key, $0.value) }
        let (call, stop) = (lastCall, waits.rebalanceToStop)
        self = Reconciler()
        lastCall = call
        waits.rebalanceToStop = stop
        return answers
    }

    private mutating func runRules(_ view: LeaderView) {
        isRoundDue = false
        finishEpoch(view)
        reconcileVoters(view)
        raiseFeatureLevel(view)
        renewSecret(view)
        finishJoins(view)
        finishDeletions(view)
        finishFlushes(view)
        for bucket in view.state.buckets { reconcileCopies(of: bucket, view) }
        watchForFailures(view)
        retryRebalance(view)
        advanceRebalance(view)
    }

    private mutating func takeActions() -> [LeaderAction] {
        let taken = actions
        actions = []
        return taken
    }

    // MARK: Jobs

    /// Whether a new secret is being proposed, so that no other needs to be made.
    package var isRenewingSecret: Bool { running.contains(.secret) }

    /// Starts a job; false if it is running.
    mutating func begin(_ job: Job) -> Bool {
        if running.insert(job).inserted { return true }
        overdue.insert(job)
        return false
    }

    mutating func end(_ job: Job) {
        running.remove(job)
        if overdue.remove(job) != nil { isRoundDue = true }
    }

    /// Has `advance` run at `time` at the latest.
    mutating func wake(at time: UInt64) { wakeAt = min(wakeAt, time) }

    // MARK: Calls

    mutating func propose(
        _ command: ClusterCommand,
        by login: String? = nil,
        isRepeated: Bool = false,
        then: @escaping @Sendable (inout Reconciler, ClusterOutcome?, LeaderView) -> Void
    ) {
        let call = awaitResult { reconciler, result, view in
            guard case .outcome(let outcome) = result else {
                preconditionFailure("a proposal has an outcome")
            }
            then(&reconciler, outcome, view)
        }
        let proposal = LeaderAction.Proposal(command: command, login: login, isRepeated: isRepeated)
        actions.append(.propose(proposal, call: call))
    }

    /// Proposes a command that is a job of its own.
    mutating func propose(_ command: ClusterCommand, as job: Job) {
        guard begin(job) else { return }
        propose(command) { reconciler, _, _ in reconciler.end(job) }
    }

    /// Asks for reports of all copies of a bucket on these nodes.
    mutating func askReports(
        of bucket: BucketRecord,
        from nodes: [NodeNumber],
        _ view: LeaderView,
        then: @escaping @Sendable (inout Reconciler, CopyReports, LeaderView) -> Void
    ) {
        let asked = Dictionary(nodes.map { ($0, [FencedVBucket]()) }, uniquingKeysWith: { $1 })
        ask(.reports(asked), of: bucket, view, then: then)
    }

    /// Asks for reports of copies or seals them; no node to be asked is no question.
    mutating func ask(
        _ kind: CopyQuestion.Kind,
        of bucket: BucketRecord,
        timeoutNanoseconds: UInt64 = CopyQuestion.timeoutNanoseconds,
        _ view: LeaderView,
        then: @escaping @Sendable (inout Reconciler, CopyReports, LeaderView) -> Void
    ) {
        switch kind {
        case .reports(let asked) where asked.isEmpty, .seal(let asked) where asked.isEmpty:
            return then(&self, [:], view)
        default: break
        }
        let call = awaitResult { reconciler, result, view in
            guard case .reports(let reports) = result else {
                preconditionFailure("copies are reported")
            }
            then(&reconciler, reports, view)
        }
        var question = CopyQuestion(kind, of: bucket, at: view.state.index)
        question.timeoutNanoseconds = timeoutNanoseconds
        actions.append(.ask(question, call: call))
    }

    /// Asks chosen copies to serve; continues with the ready ones by node.
    mutating func activate(
        _ asked: [NodeNumber: [ActivationSubject]],
        of bucket: BucketRecord,
        _ view: LeaderView,
        then:
            @escaping @Sendable (
                inout Reconciler, [NodeNumber: Set<VBucketID>], LeaderView
            ) -> Void
    ) {
        guard !asked.isEmpty else { return then(&self, [:], view) }
        let call = awaitResult { reconciler, result, view in
            guard case .activated(let ready) = result else {
                preconditionFailure("copies are activated")
            }
            then(&reconciler, ready, view)
        }
        actions.append(
            .ask(CopyQuestion(.activate(asked), of: bucket, at: view.state.index), call: call)
        )
    }

    mutating func handOver(
        _ group: [FencedVBucket],
        of node: NodeNumber,
        in bucket: BucketRecord,
        _ view: LeaderView,
        then: @escaping @Sendable (inout Reconciler, [VBucketID: Seqno], LeaderView) -> Void
    ) {
        let call = awaitResult { reconciler, result, view in
            guard case .handedOver(let ended) = result else {
                preconditionFailure("copies are handed over")
            }
            then(&reconciler, ended, view)
        }
        let question = CopyQuestion(.handOver([node: group]), of: bucket, at: view.state.index)
        actions.append(.ask(question, call: call))
    }

    mutating func changeVoters(_ steps: [VoterStep], then: @escaping Continuation) {
        let call = awaitResult { reconciler, _, view in then(&reconciler, view) }
        actions.append(.changeVoters(steps, call: call))
    }

    private mutating func awaitResult(_ continuation: @escaping ResultContinuation) -> UInt64 {
        lastCall += 1
        waiting[lastCall] = continuation
        return lastCall
    }

    /// Runs `body` for one element after another, until one continues with false.
    mutating func inTurn<Element: Sendable>(
        _ elements: ArraySlice<Element>,
        _ view: LeaderView,
        body:
            @escaping @Sendable (
                inout Reconciler, Element, LeaderView, @escaping BoolContinuation
            ) -> Void,
        then: @escaping BoolContinuation
    ) {
        guard let first = elements.first else { return then(&self, true, view) }
        body(&self, first, view) { reconciler, isGood, view in
            guard isGood else { return then(&reconciler, false, view) }
            reconciler.inTurn(elements.dropFirst(), view, body: body, then: then)
        }
    }

    mutating func log(_ level: LeaderAction.Level, _ subject: LeaderAction.Subject, text: String) {
        actions.append(.log(level, subject, text))
    }
}

/// The times since which a leader waits for something: a new leader starts them anew.
struct LeaderWaits: Sendable {
    /// By joining node: since when this leader waits for it.
    var joins: [NodeNumber: UInt64] = [:]
    /// Deleted buckets: a log index at or after the deletion, and since when it is waited for.
    var deletions: [DeletedBucket: (index: UInt64, at: UInt64)] = [:]
    /// By bucket: since when chosen copies have refused to serve because they are not ready.
    var refusedSince: [String: [VBucketID: UInt64]] = [:]
    /// By bucket: when the leader last chose again for vBuckets of `refusedSince`.
    var choseAnewAt: [String: UInt64] = [:]
    var abandonments = Abandonments()
    /// By bucket: since when copies have been sealed although their active copy is confirmed.
    var sealedSince: [String: [VBucketID: UInt64]] = [:]
    /// By bucket: the seqno that a new owner must persist before the former owner drops its copy.
    var formersWaitFor: [String: [VBucketID: (fence: UInt64, high: Seqno)]] = [:]
    /// By bucket: when copies that do not serve were last asked for reports.
    var unservedAskedAt: [String: UInt64] = [:]
    /// How many times the moves of a bucket were begun.
    var movesBegun: UInt64 = 0
    /// The id of the rebalance that an operator requested to stop.
    var rebalanceToStop: String?
}

/// vBuckets of which only failed-over nodes may have data, by the answers of all other nodes.
///
/// Each conclusion has its preconditions: if one of them changes, the copies are asked again. A missing answer
/// changes nothing.
struct Abandonments: Sendable {
    /// The preconditions of one conclusion.
    private struct Precondition: Hashable, Sendable {
        let fence: UInt64
        let stage: UInt64
        let failedOver: Set<NodeNumber>
        /// A failed-over node that this rebalance removes is not waited for.
        let rebalance: String?
    }

    private var conclusions: [String: [VBucketID: Precondition]] = [:]

    /// Records whether only failed-over nodes may have data of a vBucket, by one set of
    /// answers.
    ///
    /// - Parameters:
    ///   - question: The question that was asked.
    ///   - name: The bucket's name.
    ///   - hasChoice: Whether an answering node has data.
    ///   - isAnswered: Whether all asked nodes answered.
    ///   - state: The agreed state.
    mutating func record(
        _ question: Promotion.Question,
        ofBucket name: String,
        hasChoice: Bool,
        isAnswered: Bool,
        _ state: ClusterState
    ) {
        if hasChoice {
            conclusions[name]?[question.vBucket] = nil
        } else if isAnswered {
            conclusions[name, default: [:]][question.vBucket] = Precondition(
                fence: question.fence,
                stage: question.stage,
                failedOver: question.lost,
                rebalance: state.rebalance?.id
            )
        }
    }

    /// The vBuckets of a bucket whose conclusions still hold; drops the others.
    mutating func vBuckets(of bucket: BucketRecord, _ view: LeaderView) -> Set<VBucketID> {
        let name = bucket.settings.name
        guard let before = conclusions[name] else { return [] }
        let (failedOver, rebalance) = (view.failedOver, view.state.rebalance?.id)
        let left = before.filter { vBucket, precondition in
            guard bucket.placements.indices.contains(Int(vBucket.number)) else { return false }
            let placement = bucket[vBucket]
            return precondition
                == Precondition(
                    fence: placement.fence,
                    stage: placement.stage,
                    failedOver: failedOver,
                    rebalance: rebalance
                )
        }
        conclusions[name] = left.isEmpty ? nil : left
        return Set(left.keys)
    }

    /// The obstacles to moves of this bucket's vBuckets, sorted by vBucket number.
    mutating func obstacles(in bucket: BucketRecord, _ view: LeaderView) -> [RowObstacle] {
        let abandoned = vBuckets(of: bucket, view)
        let failedOver = view.failedOver
        return bucket.numberedPlacements.compactMap { vBucket, placement in
            RowObstacle(
                vBucket,
                placement,
                failedOver: failedOver,
                isAbandoned: abandoned.contains(vBucket)
            )
        }
    }
}
