internal import Bytes
internal import Indexing
internal import Persistence
internal import Seams

/// The answer of this node to one query.
///
/// It waits for the cluster map and for the index, states what it has, and sends batches as the
/// coordinator's credit allows. Each step is a turn on its lane; the snapshot stays open between
/// turns, so that all batches are of one commit of the index. The first turn of a query of this node is
/// on the thread that asks: most queries have few rows, and another thread costs more than they do.
///
/// - Everything but `addCredit` and `cancel` is a step of `steps`.
/// - The reader of the index's file is released when the last reply is sent or the query is cancelled.
/// - Rows are only those of requested vBuckets which the snapshot has completely; the others are named
///   in the start.
final class QueryResponse: QueryCall, @unchecked Sendable {  // tidy:allow belongs to its lane
    /// The course of the answer.
    enum Phase: Equatable {
        /// Waits for the map or for the index to exist. Next: `refreshing`, `opening`.
        case admitting
        /// Waits for changes to be indexed. Next: `opening`.
        case refreshing
        /// Waits for a reader of the file, or for what the start states. Next: `scanning`,
        /// `refreshing`.
        case opening
        /// Reads rows while there is credit. Next: `reducing`.
        case scanning
        /// Waits for the reduce function. Next: `scanning`.
        case reducing
        /// The last reply is sent, or there will be none. Final.
        case over
    }

    /// The state that changes during the answer: phase, waits and deadlines.
    struct Course {
        var phase = Phase.admitting
        /// Counts the waits, so that the end of an earlier one has no effect.
        var waits: UInt64 = 0
        var timer: LaneTimer?
        /// When the answer must have started.
        var startsUntil: UInt64 = 0
        /// The end of the wait for the map.
        var admittedUntil: UInt64 = 0
        /// The end of the wait for a new index to exist, if the query needs a current one.
        var indexAwaitedUntil: UInt64 = 0
        /// Whether the answer has waited for the first build of the index.
        var hasWaitedForBuild = false
        var stall: StallRule
        /// Whether the snapshot is checked regularly.
        var isWatched = false
        /// Whether the first turn follows the start at once, and is a short one.
        var hasShortTurn = false
    }

    let request: QueryRequest
    let dependencies: QueryResponder.Dependencies
    private let lane: any Lane
    private let steps = StepQueue()
    private let reply: @Sendable (QueryReply) -> Void
    private let done: @Sendable () -> Void
    /// Set from any thread.
    private let isCancelled = Guarded(false)
    let credit = BatchCredit()
    var course: Course
    var index: ViewIndex?
    var snapshot: QuerySnapshot?

    /// An answer that has not begun; `done` is called once when it is over.
    init(
        _ request: QueryRequest,
        _ dependencies: QueryResponder.Dependencies,
        on lane: any Lane,
        reply: @escaping @Sendable (QueryReply) -> Void,
        done: @escaping @Sendable () -> Void
    ) {
        self.request = request
        self.dependencies = dependencies
        course = Course(stall: StallRule(dependencies.stall))
        self.lane = lane
        self.reply = reply
        self.done = done
    }

    var now: UInt64 { dependencies.environment.time.monotonicNanoseconds() }

    // MARK: From any thread

    /// Begins to answer: on the lane, or on this thread, as far as there is nothing to wait for and few
    /// rows are read.
    func begin(onThisThread: Bool) {
        let step = { @Sendable (response: QueryResponse) in
            response.course.hasShortTurn = onThisThread
            let now = response.now
            let (span, isLong) = response.request.startMillisecondsMax
                .multipliedReportingOverflow(by: 1_000_000)
            response.course.startsUntil = isLong ? .max : now &+ min(span, .max - now)
            response.course.admittedUntil = min(
                response.course.startsUntil,
                now + QueryResponse.mapWaitNanoseconds
            )
            // The node states that the index is missing before the coordinator gives up.
            let remaining = response.course.startsUntil - now
            response.course.indexAwaitedUntil = now + (remaining - remaining / 8)
            response.admit()
        }
        if onThisThread { run(step) } else { post(step) }
    }

    func addCredit() {
        guard credit.add() else { return }
        post { response in
            if response.course.phase == .scanning { response.resume() }
        }
    }

    func cancel() {
        isCancelled.withLock { $0 = true }
        run { $0.finish() }
    }

    /// Checks a waiting query again after the followed buckets have changed or an index was opened.
    func bucketsChanged() {
        post { response in
            switch response.course.phase {
            case .admitting: response.admit()
            case .refreshing: response.endIfMoved()
            case .opening, .scanning, .reducing, .over: break
            }
        }
    }

    /// Ends the answer with a failure.
    func stop() {
        post { $0.finish(.failed("The node is being stopped. Retry the query.")) }
    }

    /// Runs a step on the lane, unless the answer is over then.
    func post(_ step: @escaping @Sendable (QueryResponse) -> Void) {
        lane.post { [self] in run(step) }
    }

    /// Runs a step on this thread, or behind the step that another thread runs.
    private func run(_ step: @escaping @Sendable (QueryResponse) -> Void) {
        steps.post { [self] in
            if course.phase != .over { step(self) }
        }
    }

    /// Runs a step on the lane after a pause, unless the answer is over or released then.
    func post(after nanoseconds: UInt64, _ step: @escaping @Sendable (QueryResponse) -> Void) {
        lane.post(after: nanoseconds) { [weak self] in self?.run(step) }
    }

    // MARK: Steps

    /// Enters a phase in which the answer waits.
    ///
    /// - Returns: The number of the wait, for `isWaiting`.
    @discardableResult
    func wait(
        _ phase: Phase,
        until time: UInt64 = .max,
        _ late: @escaping @Sendable (QueryResponse) -> Void = { _ in }
    ) -> UInt64 {
        enter(phase)
        let wait = course.waits
        guard time < .max else { return wait }
        let now = now
        course.timer = lane.post(after: time > now ? time - now : 0) { [weak self] in
            self?.run { response in
                if response.isWaiting(wait) { late(response) }
            }
        }
        return wait
    }

    /// Whether the answer is still in this wait.
    func isWaiting(_ wait: UInt64) -> Bool { course.phase != .over && course.waits == wait }

    /// Enters a phase; what the phase before waited for has no effect any more.
    func enter(_ phase: Phase) {
        course.phase = phase
        course.waits += 1
        course.timer?.cancel()
        course.timer = nil
    }

    func send(_ message: QueryReply) {
        if !isCancelled.withLock({ $0 }) { reply(message) }
    }

    /// Starts with the rows of the snapshot.
    func start(_ start: QueryStart) {
        send(.start(start))
        enter(.scanning)
        guard course.hasShortTurn else { return postTurn() }
        course.hasShortTurn = false
        turn(rowsMax: ScanInput.firstTurnRowsMax)
    }

    func postTurn() {
        post { response in
            if response.course.phase == .scanning { response.turn() }
        }
    }

    func closeSnapshot() {
        snapshot?.close()
        snapshot = nil
    }

    /// Ends the answer; without a reply if it was cancelled.
    func finish(_ last: QueryReply? = nil) {
        guard course.phase != .over else { return }
        enter(.over)
        closeSnapshot()
        index = nil
        done()
        if let last { send(last) }
    }

    /// Ends the answer because the index's file cannot be read.
    func finish(_ error: StorageError) {
        guard error.code != .gone else {
            return finish(.failed("The index was replaced during the query. Retry the query."))
        }
        let name = index?.name ?? "?"
        dependencies.environment.trace.error(
            "views",
            "Ending a query of index \(name): \(error.description)"
        )
        if error.concernsContent { index?.readFailed(error) }
        finish(.failed(ViewIndex.unusable))
    }
}

/// How many batches a response may send; its coordinator adds credit from any thread.
///
/// Most credit comes before the response needs it. Only a response that has found none is continued by
/// the next addition: each further change of the thread would cost more than a short query.
package final class BatchCredit: Sendable {
    private struct State {
        var count = RowMerge.creditMax
        /// Whether the response has found no credit since the last addition.
        var isAwaited = false
    }

    private let state = Guarded(State())

    /// The credit with which a response begins.
    package init() {}

    /// Adds credit for a batch; returns whether the response waits for it, and must be continued.
    package func add() -> Bool {
        state.withLock { state in
            state.count += 1
            return exchange(&state.isAwaited, with: false)
        }
    }

    /// Whether a batch may be sent; if not, the response waits for the next addition.
    package func isThere() -> Bool {
        state.withLock { state in
            state.isAwaited = state.count == 0
            return state.count > 0
        }
    }

    /// A batch is sent.
    package func use() {
        state.withLock { $0.count -= 1 }
    }
}
