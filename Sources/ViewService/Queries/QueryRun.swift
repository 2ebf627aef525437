internal import Bytes
internal import Indexing
internal import Seams

/// One view query on the node that its client asked: sends it to the nodes, and writes the answer.
///
/// `QueryCoordination` decides which node is asked for which vBuckets and what the answer lacks; the
/// run carries that out, reduces the groups of several nodes, reads included documents, and writes
/// JSON with `ViewReply`.
///
/// - Everything but `beginNow`, `begin`, `next` and `cancel` is a step of `steps`. Steps run on the thread of
///   the client's connection, of this node's index, or on the lane of the dependencies, where events of
///   other nodes, script processes and timers become steps.
/// - Rows are read only while the client waits for a part: what a slow client does not read stays
///   with the responders. `beginNow` and `begin` may wait for the first part too.
/// - The steps that begin a query run on the thread that calls `beginNow` or `begin`. A query that is open
///   after them needs no observation of the map, no timer, and no suspension of its caller.
/// - The owner calls `cancel` in any case, also after the end of the answer.
package final class QueryRun: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// The bytes of a part: what the client's connection accepts beyond its own buffer.
    static let partBytes = 64 << 10
    /// If more rows must arrive first, fewer bytes wait for them: the next event is often the last.
    static let partBytesMin = 4 << 10

    enum Stage: Equatable {
        /// Waits until the coordination is open. Next: `rows` or `cancelled`.
        case opening
        /// Writes rows. Next: `written` or `cancelled`.
        case rows
        /// The whole text is written, not all of it is delivered. Next: `over` or `cancelled`.
        case written
        /// All is delivered. Next: `cancelled`.
        case over
        /// Final.
        case cancelled
    }

    /// The callers that wait for this run.
    struct Waiters {
        var opening: UnsafeContinuation<Void, Never>?
        /// Whether the beginning also includes the first part, which is not there yet.
        var awaitsPart: Bool
        var next: UnsafeContinuation<Result<Part, CancellationError>, Never>?
    }

    let query: Query
    let dependencies: Dependencies
    /// In milliseconds: when the query opens with what it has.
    let deadline: UInt64
    private let slot: QuerySlots.Slot
    /// When the present phase began, in monotonic nanoseconds.
    private var phaseStart: UInt64
    let steps = StepQueue()
    var coordination: QueryCoordination
    var stage = Stage.opening
    var links = Links()
    var answer = Answer()
    private var waiters: Waiters
    private let wholeText = Guarded<[UInt8]?>(nil)

    private init(
        _ query: Query,
        _ dependencies: Dependencies,
        map: QueryCoordination.ServingMap,
        place: Place,
        awaitsPart: Bool
    ) {
        waiters = Waiters(awaitsPart: awaitsPart)
        self.query = query
        self.dependencies = dependencies
        slot = place.slot
        phaseStart = dependencies.environment.time.monotonicNanoseconds()
        deadline = place.deadline
        var terms = QueryCoordination.Terms(
            deadline: deadline,
            merge: query.current.plan.merge,
            previousMerge: query.previous?.plan.merge
        )
        let now = QueryRun.milliseconds(dependencies)
        terms.limitRestarts(query.current.plan.freshness, now: now)
        terms.usesSubset = query.usesSubset
        coordination = QueryCoordination(terms, map: map)
    }

    // MARK: From any thread

    /// The whole text, if it was complete and without errors when the query was open.
    ///
    /// Then `next` returns only the end. Nil before that, and for every other answer.
    package var whole: [UInt8]? { wholeText.withLock { $0 } }

    /// Begins a query on the calling thread, as far as it needs not wait.
    ///
    /// The thread reads at most the rows of a first turn (`ScanInput.firstTurnRowsMax`), and only if a reader
    /// of the index is free. If the answer is not `whole` then, its work continues on other threads:
    /// `awaitOpening` waits for it.
    ///
    /// - Parameters:
    ///   - query: The query.
    ///   - dependencies: What the run needs of its node.
    /// - Returns: The run, whose first part is awaited, or why there is none.
    package static func beginNow(_ query: Query, _ dependencies: Dependencies) -> PromptBeginning {
        guard let slot = dependencies.slots.acquireIfFree() else { return .needsSlot }
        let time = span(query.current.plan.timeoutMilliseconds)
        let place = Place(slot: slot, deadline: milliseconds(dependencies) + time)
        guard let run = start(query, dependencies, in: place, awaitsPart: true) else {
            return .unknownBucket
        }
        return .begun(run)
    }

    /// Waits until the first bytes of the run may be sent; for one caller.
    ///
    /// If the calling task is cancelled, so is the run, and `next` throws.
    package func awaitOpening() async {
        await withTaskCancellationHandler {
            await withUnsafeContinuation { waiter in
                steps.post { self.addWaiter(waiter) }
            }
        } onCancel: {
            cancel()
        }
    }

    /// Waits for the slot of a query; the wait is part of the query's time.
    ///
    /// If the calling task is cancelled meanwhile, the node is `busy`.
    ///
    /// - Parameters:
    ///   - bucket: The bucket of the view.
    ///   - timeoutMilliseconds: The query's time until all nodes must have begun to answer.
    ///   - dependencies: What the run needs of its node.
    /// - Returns: The slot, or why there is none.
    package static func admit(
        to bucket: Bucket,
        within timeoutMilliseconds: Int,
        _ dependencies: Dependencies
    ) async -> Admission {
        guard dependencies.ports.maps.servingMap(ofBucket: bucket.uuid) != nil else {
            return .unknownBucket
        }
        let start = milliseconds(dependencies)
        let span = span(timeoutMilliseconds)
        let time = dependencies.environment.time
        let began = time.monotonicNanoseconds()
        let slot = await dependencies.slots.acquire(
            within: span * 1_000_000,
            on: dependencies.lane
        )
        let waited = time.monotonicNanoseconds() - began
        if slot != nil {
            dependencies.latencies.record(.queue, of: bucket, nanoseconds: waited)
        }
        return slot.map { .admitted(Place(slot: $0, deadline: start + span)) } ?? .busy
    }

    /// Sends an admitted query to the nodes, and returns when its first bytes may be sent.
    ///
    /// If the calling task is cancelled meanwhile, so is the run, and `next` throws.
    ///
    /// - Parameters:
    ///   - query: The query.
    ///   - dependencies: What the run needs of its node.
    ///   - place: The query's slot.
    ///   - awaitsPart: Whether to return only when the first part is there: a short answer is then
    ///     complete (`whole`), and its client is woken once.
    /// - Returns: The run, or why there is none.
    package static func begin(
        _ query: Query,
        _ dependencies: Dependencies,
        in place: Place,
        awaitsPart: Bool = false
    ) async -> Beginning {
        guard let run = start(query, dependencies, in: place, awaitsPart: awaitsPart) else {
            return .unknownBucket
        }
        if run.whole == nil { await run.awaitOpening() }
        return .open(run)
    }

    /// Waits for the slot of a query, and begins it.
    package static func begin(
        _ query: Query,
        _ dependencies: Dependencies,
        awaitsPart: Bool = false
    ) async -> Beginning {
        let timeout = query.current.plan.timeoutMilliseconds
        switch await admit(to: query.bucket, within: timeout, dependencies) {
        case .admitted(let place):
            return await begin(query, dependencies, in: place, awaitsPart: awaitsPart)
        case .busy: return .busy
        case .unknownBucket: return .unknownBucket
        }
    }

    /// Waits for the next part; one caller at a time.
    ///
    /// If the calling task is cancelled, so is the run.
    ///
    /// - Throws: `CancellationError` if the run was cancelled.
    package func next() async throws(CancellationError) -> Part {
        let part = await withTaskCancellationHandler {
            await withUnsafeContinuation { waiter in
                steps.post { self.serve(waiter) }
            }
        } onCancel: {
            cancel()
        }
        return try part.get()
    }

    /// Ends all work for the query; idempotent.
    package func cancel() {
        steps.post { self.close() }
    }

    // MARK: The beginning

    /// Sends an admitted query to the nodes; nil if this node does not have the bucket any more.
    private static func start(
        _ query: Query,
        _ dependencies: Dependencies,
        in place: Place,
        awaitsPart: Bool
    ) -> QueryRun? {
        // The bucket may have been deleted during the wait for the slot.
        guard let map = dependencies.ports.maps.servingMap(ofBucket: query.bucket.uuid) else {
            return nil
        }
        let run = QueryRun(query, dependencies, map: map, place: place, awaitsPart: awaitsPart)
        run.steps.post { run.perform(run.coordination.begin(now: run.now)) }
        // Runs after the events of this node, which suffice for most queries.
        run.steps.post { run.watchOpening() }
        return run
    }

    private static func span(_ timeoutMilliseconds: Int) -> UInt64 {
        UInt64(min(max(timeoutMilliseconds, 0), Int(Int32.max)))
    }

    private func addWaiter(_ waiter: UnsafeContinuation<Void, Never>) {
        guard stage == .opening || waiters.awaitsPart else { return waiter.resume() }
        precondition(waiters.opening == nil, "one caller waits for the beginning")
        waiters.opening = waiter
    }

    // MARK: Steps

    static func milliseconds(_ dependencies: Dependencies) -> UInt64 {
        dependencies.environment.time.monotonicNanoseconds() / 1_000_000
    }

    var now: UInt64 { QueryRun.milliseconds(dependencies) }

    /// The query by the definition that answers in the current attempt.
    var version: Version {
        coordination.usesPreviousIndex ? query.previous ?? query.current : query.current
    }

    private func serve(_ waiter: UnsafeContinuation<Result<Part, CancellationError>, Never>) {
        if stage == .cancelled { return waiter.resume(returning: .failure(CancellationError())) }
        precondition(waiters.next == nil, "one caller at a time waits for a part")
        waiters.next = waiter
        proceed()
    }

    /// Writes the beginning of the answer.
    func open(totalRows: UInt64) {
        guard stage == .opening else { return }
        stage = .rows
        endPhase(.open)
        links.endOpening()
        if !coordination.usesPreviousIndex, coordination.failures.isEmpty { query.isReady?() }
        start(answerOf: totalRows)
        if waiters.awaitsPart { return proceed() }
        waiters.opening?.resume()
        waiters.opening = nil
    }

    /// Delivers a part if a caller waits for one and there is enough.
    func proceed() {
        guard waiters.next != nil || waiters.awaitsPart else { return }
        if stage == .rows { writeRows() }
        let isDue = stage == .written || stage == .over
        let isEnough = answer.output.count >= (isDue ? 1 : QueryRun.partBytesMin)
        if waiters.awaitsPart {
            if isDue || isEnough { endOpening(isComplete: isDue) }
        } else if isEnough {
            deliver(.bytes(removeText()))
        } else if isDue {
            stage = .over
            deliver(.end(isPartial: answer.isPartial))
        }
    }

    /// The first part is there.
    private func endOpening(isComplete: Bool) {
        if isComplete, !answer.isPartial {
            let text = removeText()
            wholeText.withLock { $0 = text }
            stage = .over
        }
        waiters.awaitsPart = false
        waiters.opening?.resume()
        waiters.opening = nil
    }

    private func removeText() -> [UInt8] {
        let bytes = answer.output.bytes
        answer.output.removeAll(keepingAtMost: 2 * QueryRun.partBytes)
        return bytes
    }

    private func deliver(_ part: Part) {
        let waiter = waiters.next
        waiters.next = nil
        waiter?.resume(returning: .success(part))
    }

    /// Completes the text, and ends the work of the nodes.
    func finish() {
        stage = .written
        endPhase(.rows)
        end(with: coordination.failures)
        release()
    }

    private func endPhase(_ phase: QueryLatencies.Phase) {
        let now = dependencies.environment.time.monotonicNanoseconds()
        let nanoseconds = now - phaseStart
        dependencies.latencies.record(phase, of: query.bucket, nanoseconds: nanoseconds)
        phaseStart = now
    }

    private func close() {
        guard stage != .cancelled else { return }
        stage = .cancelled
        release()
        answer = Answer()
        waiters.opening?.resume()
        waiters.next?.resume(returning: .failure(CancellationError()))
        waiters = Waiters(awaitsPart: false)
    }

    /// Releases what the query holds elsewhere.
    private func release() {
        perform(coordination.close())
        links.end()
        slot.release()
    }
}
