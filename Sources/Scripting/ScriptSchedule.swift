/// Decides which worker runs which piece of which job, and what the death of a worker means.
///
/// Functions of views and gateways are foreign code: they use up their time, or end their process by their memory
/// or by an error of the engine. So a function runs where its `ScriptReputation` puts it: proven ones
/// share the ordinary workers, new ones have one worker to prove themselves, and suspected ones share
/// the quarantine worker, which no other function waits for. Functions of one place have equal shares
/// of its time. A piece that occupies a worker outside the quarantine for longer than its slice is
/// ended and runs again in the quarantine.
///
/// Of the frames that a dead worker had, only the one that it executed is suspect. It runs again in
/// the quarantine worker, call by call, until one call has ended a fresh process twice; that call is
/// skipped. If every call passes, nothing is skipped. The other frames are sent to workers again, as are
/// all frames of a worker whose memory earlier frames have used up.
///
/// A function may leave documents in its process, so a process works for one bucket, and is replaced before
/// a function of another one runs (`ScriptSchedule+Buckets.swift`).
///
/// - Every call of a job has exactly one result or is skipped once, unless the job is abandoned.
/// - At most `workersMax` processes and two others exist, ending ones included.
/// - Replies of an ended process are not accepted.
/// - Every death with a frame makes progress: its function becomes suspected, or its piece gets
///   smaller, or gets a strike. A death without one delays the next start, so that a broken program
///   is not started in a loop.
package struct ScriptSchedule: Sendable {
    package let limits: ScriptScheduleLimits
    /// Starts that failed, or processes that ended without a result, since the last result.
    package internal(set) var failures = 0
    /// By slot; nil without a process.
    var workers: [Worker?]
    /// The reputation of functions, and their pieces without a worker.
    private(set) var functions: [UInt32: ScriptFunctionQueue] = [:]
    /// The functions with pieces that wait.
    private(set) var waiting: Set<UInt32> = []
    var jobs: [UInt64: Job] = [:]
    /// Interactive pieces that were sent before others, in succession, by trust.
    var passed: [ScriptReputation.Trust: Int] = [:]
    var startAllowedAt: UInt64 = 0
    /// The time of a start that is needed and must wait; nil if none is.
    var delayedStart: UInt64?
    /// When a process can be ended for functions whose bucket has none; nil if no such functions wait.
    var reassignableAt: UInt64?
    var actions: [Action] = []
    private var batches: UInt32 = 0
    private var generations: UInt32 = 0

    struct Job: Hashable, Sendable {
        let function: UInt32
        let demand: ScriptJob.Demand
        /// Calls without a result.
        var left: Int
    }

    struct Sent: Hashable, Sendable {
        let batch: UInt32
        let function: UInt32
        let piece: ScriptPiece
        /// Counted as used until the piece ends.
        let estimate: UInt64
        var strikes = 0
        /// Whether it is one call in a fresh process, so that a death is a strike.
        var isTrial = false
        var isExecuting = false
        /// The item whose call could not be interrupted.
        var overran: Int?
    }

    struct Worker: Sendable {
        enum Phase: Hashable, Sendable {
            /// Can become: ready, stopping.
            case starting
            /// Can become: stopping.
            case ready
            case stopping(StopReason)
        }

        let id: ScriptWorkerID
        var phase = Phase.starting
        /// The oldest one first, in which order the process executes them.
        var sent: [Sent] = []
        /// Whether the process has called no function yet.
        var isFresh = true
        /// Whether it has delivered a result.
        var isUseful = false
        /// Whether it is replaced as soon as it has no frames, because of its memory.
        var isRetiring = false
        /// The bucket that it works for and when its first function was sent; nil before.
        var tenure: (bucket: String, since: UInt64)?
        /// Whether it is replaced as soon as it has no frames, by a process for another bucket.
        var isYielding = false
        /// The time of the start or of the last step.
        var lastStep: UInt64

        var bucket: String? { tenure?.bucket }

        var isStopping: Bool { if case .stopping = phase { true } else { false } }
    }

    package init(_ limits: ScriptScheduleLimits) {
        self.limits = limits
        workers = Array(repeating: nil, count: limits.slots)
    }

    // MARK: What the caller asks

    /// Whether workers cannot be started, so that waiting queries should get an error.
    package var isUnable: Bool { failures >= 5 }

    /// Processes that exist.
    package var workerCount: Int { workers.count { $0 != nil } }

    /// Where a function runs; nil if the schedule has never had a job of it.
    package func trust(of function: UInt32) -> ScriptReputation.Trust? {
        functions[function]?.reputation.trust
    }

    /// The bucket of a function; nil as above.
    func bucket(of function: UInt32) -> String? { functions[function]?.bucket }

    /// Whether a reply is expected: its process lives and executes the batch next.
    package func accepts(_ worker: ScriptWorkerID, batch: UInt32) -> Bool {
        guard let live = live(worker), case .ready = live.phase else { return false }
        return live.sent.first?.batch == batch
    }

    // MARK: Events

    /// Handles one event and returns what to do; `now` are monotonic nanoseconds.
    package mutating func handle(_ event: Event, now: UInt64) -> [Action] {
        actions = []
        (delayedStart, reassignableAt) = (nil, nil)
        switch event {
        case .submitted(let job): submit(job)
        case .cancelled(let job): removeJob(job)
        case .forgotten(let function): forget(function)
        case .ready(let id):
            change(id) { worker in
                guard worker.phase == .starting else { return }
                worker.phase = .ready
                worker.lastStep = now
            }
        case .executing(let id, let batch): begin(batch, on: id, now)
        case .finished(let id, let batch, let timeouts): finish(batch, timeouts, on: id, now: now)
        case .violated(let id): stop(id, .violated)
        case .overran(let id, let batch, let item): overrun(batch, item, on: id)
        case .measured(let id, let bytes): measure(id, bytes)
        case .retiring(let id): retire(id)
        case .ended(let id): end(id, now)
        case .timer: break
        }
        stopOverdue(now)
        for trust in ScriptReputation.Trust.allCases { dispatch(trust, now) }
        defer { actions = [] }
        return actions
    }

    private mutating func begin(_ batch: UInt32, on id: ScriptWorkerID, _ now: UInt64) {
        guard let worker = live(id), worker.phase == .ready else { return }
        // A process executes its frames in order.
        guard let first = worker.sent.first, first.batch == batch, !first.isExecuting else {
            return stop(id, .violated)
        }
        change(id) { worker in
            worker.sent[0].isExecuting = true
            worker.isFresh = false
            worker.lastStep = now
        }
    }

    private mutating func finish(
        _ batch: UInt32,
        _ timeouts: Int,
        on id: ScriptWorkerID,
        now: UInt64
    ) {
        guard let worker = live(id), worker.phase == .ready else { return }
        guard let first = worker.sent.first, first.batch == batch, first.isExecuting else {
            return stop(id, .violated)
        }
        failures = 0
        change(id) { worker in
            worker.isUseful = true
            worker.lastStep = now
            worker.sent.removeFirst()
        }
        let used = now - worker.lastStep
        changeFunction(first.function) { $0.correct(first.estimate, to: used) }
        count(first.piece.items.count, of: first.piece.job)
        changeReputation(first.function) {
            $0.finish(items: first.piece.items.count, timeouts: timeouts, nanoseconds: used)
        }
        if timeouts > 0 { abandonHopeless(first.function, first.piece.job) }
    }

    private mutating func overrun(_ batch: UInt32, _ item: Int, on id: ScriptWorkerID) {
        guard let worker = live(id), worker.phase == .ready else { return }
        guard let first = worker.sent.first, first.batch == batch, first.isExecuting,
            first.piece.items.contains(item)
        else { return stop(id, .violated) }
        change(id) { $0.sent[0].overran = item }
        stop(id, .overran)
    }

    private mutating func measure(_ id: ScriptWorkerID, _ bytes: UInt64) {
        guard bytes <= limits.memoryBytesMax else { return stop(id, .memory) }
        let isRetiring = bytes > limits.recycleBytes
        change(id) { $0.isRetiring = isRetiring }
    }

    /// Replaces a process that cannot execute its next frame, which is not suspect.
    ///
    /// A process that retires before its first result would be replaced for ever.
    private mutating func retire(_ id: ScriptWorkerID) {
        guard let worker = live(id), worker.phase == .ready else { return }
        let isAllowed = worker.isUseful && worker.sent.first?.isExecuting == false
        stop(id, isAllowed ? .recycled : .violated)
    }

    // MARK: Parts

    /// The worker, if this process of it lives.
    func live(_ id: ScriptWorkerID) -> Worker? {
        guard workers.indices.contains(id.slot), let worker = workers[id.slot], worker.id == id
        else { return nil }
        return worker
    }

    mutating func change(_ id: ScriptWorkerID, _ body: (inout Worker) -> Void) {
        guard var worker = live(id) else { return }
        body(&worker)
        workers[id.slot] = worker
    }

    /// Changes what is known of a function, or forgets it.
    mutating func changeFunction(
        _ number: UInt32,
        _ body: (inout ScriptFunctionQueue) -> Void
    ) {
        guard var queue = functions[number] else { return }
        body(&queue)
        functions[number] = queue.isForgotten && queue.jobs == 0 ? nil : queue
        if queue.waiting.isEmpty { waiting.remove(number) } else { waiting.insert(number) }
    }

    /// Adds a function without a past, unless it is known.
    mutating func addFunction(_ number: UInt32, ofBucket bucket: String) {
        if functions[number] == nil { functions[number] = ScriptFunctionQueue(bucket: bucket) }
    }

    /// Kills a process that is not being killed yet.
    mutating func stop(_ id: ScriptWorkerID, _ reason: StopReason) {
        guard let worker = live(id), !worker.isStopping else { return }
        change(id) { $0.phase = .stopping(reason) }
        actions.append(.stop(id, reason))
    }

    mutating func start(slot: Int, _ now: UInt64) {
        generations &+= 1
        let id = ScriptWorkerID(slot: slot, generation: generations)
        workers[slot] = Worker(id: id, lastStep: now)
        actions.append(.start(id))
    }

    /// Sends the next piece of a function to a worker.
    mutating func send(_ function: UInt32, to id: ScriptWorkerID, _ now: UInt64) {
        batches &+= 1
        let batch = batches
        let isFresh = live(id)?.isFresh == true
        var sent: Sent?
        changeFunction(function) { queue in
            let next = queue.removeNext()
            let frame = Sent(
                batch: batch,
                function: function,
                piece: next.piece,
                estimate: queue.estimate(items: next.piece.items.count),
                strikes: next.strikes,
                isTrial: next.piece.isSingle && isFresh
            )
            queue.usedNanoseconds += frame.estimate
            sent = frame
        }
        guard let sent, let bucket = functions[function]?.bucket else { return }
        change(id) { worker in
            precondition(
                worker.bucket == nil || worker.bucket == bucket,
                "a process runs functions of one bucket"
            )
            if worker.tenure == nil { worker.tenure = (bucket, now) }
            if worker.sent.isEmpty { worker.lastStep = now }
            worker.sent.append(sent)
        }
        actions.append(.send(sent.piece, batch: batch, to: id))
    }
}
