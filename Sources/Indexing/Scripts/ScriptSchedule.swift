/// Decides which worker runs which piece of which job, and what the death of a worker means.
///
/// Functions of views are foreign code: they end their process by their memory, or by an error of
/// the engine. Of the frames that a dead worker had, only the one that it executed is suspect. A
/// suspect runs again in the penalty worker, one at a time, in halves until one call has ended a
/// fresh process twice; that call is skipped. If every half passes, nothing is skipped. The other
/// frames are sent to other workers at once.
///
/// - Every call of a job has exactly one result, or is skipped once.
/// - At most `workersMax` processes and the penalty worker exist, ending ones included.
/// - Replies of an ended process, and of cancelled jobs, are not accepted.
/// - Every death with a frame makes progress: the frame becomes suspect, or is halved, or gets a
///   strike. A death without one delays the next start, so that a broken program is not started
///   in a loop.
package struct ScriptSchedule: Sendable {
    package let limits: ScriptScheduleLimits
    /// Starts that failed, or processes that ended without a result, since the last result.
    package internal(set) var failures = 0
    /// By slot; nil without a process.
    var workers: [Worker?]
    /// Pieces for any worker, the next one first.
    var queue: [ScriptPiece] = []
    /// Pieces for the penalty worker, the next one first.
    var suspects: [Suspect] = []
    /// Calls without a result, by job.
    var jobs: [UInt64: Int] = [:]
    var startAllowedAt: UInt64 = 0
    /// The time of a start that is needed and must wait; nil if none is.
    var delayedStart: UInt64?
    var actions: [Action] = []
    private var batches: UInt32 = 0
    private var generations: UInt32 = 0

    struct Suspect: Hashable, Sendable {
        var piece: ScriptPiece
        /// Fresh processes that it has ended.
        var strikes = 0
    }

    struct Sent: Hashable, Sendable {
        let batch: UInt32
        /// What has no result yet.
        var piece: ScriptPiece
        var strikes = 0
        /// Whether it is one call in a fresh process, so that a death is a strike.
        var isTrial = false
        var isExecuting = false
        /// The item whose call could not be interrupted.
        var overran: Int?
    }

    struct Worker: Hashable, Sendable {
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
        /// Whether it is replaced as soon as it has no frames.
        var isRetiring = false
        /// The time of the start or of the last step.
        var lastStep: UInt64

        var isStopping: Bool { if case .stopping = phase { true } else { false } }
    }

    package init(_ limits: ScriptScheduleLimits) {
        self.limits = limits
        workers = Array(repeating: nil, count: limits.workersMax + 1)
    }

    // MARK: What the caller asks

    /// Whether another job may be submitted; otherwise its caller waits for a `complete`.
    package var hasRoom: Bool { queue.count < limits.workersMax * limits.sentMax }

    /// Whether workers cannot be started, so that waiting queries should get an error.
    package var isUnable: Bool { failures >= 5 }

    /// Processes that exist.
    package var workerCount: Int { workers.count { $0 != nil } }

    /// Whether a reply counts: its process lives and has the batch, and the job is not cancelled.
    package func accepts(_ worker: ScriptWorkerID, batch: UInt32) -> Bool {
        guard let live = live(worker), case .ready = live.phase, let first = live.sent.first
        else { return false }
        return first.batch == batch && jobs[first.piece.job] != nil
    }

    // MARK: Events

    /// Handles one event and returns what to do; `now` are monotonic nanoseconds.
    package mutating func handle(_ event: Event, now: UInt64) -> [Action] {
        actions = []
        delayedStart = nil
        switch event {
        case .submitted(let job): submit(job)
        case .cancelled(let job): cancel(job)
        case .ready(let id):
            change(id) { worker in
                guard worker.phase == .starting else { return }
                worker.phase = .ready
                worker.lastStep = now
            }
        case .executing(let id, let batch): begin(batch, on: id, now)
        case .finished(let id, let batch): finish(batch, on: id, now)
        case .violated(let id): stop(id, .violated)
        case .overran(let id, let batch, let item): overrun(batch, item, on: id)
        case .measured(let id, let bytes): measure(id, bytes)
        case .ended(let id): end(id, now)
        case .timer: break
        }
        stopOverdue(now)
        dispatch(now)
        dispatchSuspects(now)
        defer { actions = [] }
        return actions
    }

    private mutating func submit(_ job: ScriptJob) {
        precondition(jobs[job.number] == nil, "a job is submitted once")
        jobs[job.number] = job.functionCount * job.itemCount
        queue.append(
            ScriptPiece(
                job: job.number,
                functions: 0..<job.functionCount,
                items: 0..<job.itemCount
            )
        )
    }

    private mutating func cancel(_ job: UInt64) {
        jobs[job] = nil
        queue.removeAll { $0.job == job }
        suspects.removeAll { $0.piece.job == job }
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

    private mutating func finish(_ batch: UInt32, on id: ScriptWorkerID, _ now: UInt64) {
        guard let worker = live(id), worker.phase == .ready else { return }
        guard let first = worker.sent.first, first.batch == batch, first.isExecuting else {
            return stop(id, .violated)
        }
        failures = 0
        change(id) { worker in
            worker.isUseful = true
            worker.lastStep = now
            worker.sent[0].isExecuting = false
            if let rest = first.piece.withoutFirstFunction {
                worker.sent[0].piece = rest
            } else {
                worker.sent.removeFirst()
            }
        }
        count(first.piece.items.count, of: first.piece.job)
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

    mutating func send(_ piece: ScriptPiece, strikes: Int, to id: ScriptWorkerID, _ now: UInt64) {
        batches &+= 1
        var sent = Sent(batch: batches, piece: piece, strikes: strikes)
        sent.isTrial = piece.isSingle && live(id)?.isFresh == true
        let added = sent
        change(id) { worker in
            if worker.sent.isEmpty { worker.lastStep = now }
            worker.sent.append(added)
        }
        actions.append(.send(piece, batch: sent.batch, to: id))
    }

    /// Counts calls that have a result or are skipped.
    mutating func count(_ calls: Int, of job: UInt64) {
        guard let left = jobs[job] else { return }
        precondition(left >= calls, "a call has one result")
        jobs[job] = left == calls ? nil : left - calls
        if left == calls { actions.append(.complete(job: job)) }
    }
}
