internal import Bytes
internal import JSON
package import Scripting
package import Seams
package import Wire

/// The script processes of a node or a gateway: runs functions in them.
///
/// `ScriptSchedule` decides which process runs what, and what the death of one means; the pool starts
/// processes, sends frames and checks replies. Without work there is no process.
///
/// - Every submitted work is answered once, with a result or a failure for each of its items, or with
///   the failure for which the rest of it was abandoned.
/// - A process is not trusted: a reply that its request does not allow ends the process.
package final class ScriptPool: @unchecked Sendable {  // tidy:allow belongs to its lane
    package typealias Done = @Sendable (ScriptResults) -> Void

    /// The name of the program, which is in the same directory as the running one.
    package static let programName = "divan-script"
    /// Processor time of one call of a map function, for one document.
    package static let mapTimeoutMilliseconds: UInt32 = 1_000
    /// How often the memory of busy processes is measured: functions allocate gigabytes a second.
    private static let measureNanoseconds: UInt64 = 20_000_000
    /// How long a client waits at least while no process can be started.
    private static let unableNanoseconds: UInt64 = 2_000_000_000

    private struct Job {
        let work: ScriptWork
        var results = ScriptResults()
        /// The items of its finished frames.
        var finished: [Range<Int>] = []
        let done: Done
        /// Only if a client waits.
        var timer: LaneTimer?

        /// Adds a failure of each item that has neither rows nor a failure: no rows are a result too.
        mutating func failAbandonedItems() {
            let answered = Set(finished.joined()).union(results.failures.map(\.item))
            for item in 0..<work.count where !answered.contains(item) {
                results.failures.append(ScriptResults.Failure(abandoned: item))
            }
        }
    }

    /// A frame that a process has.
    private struct Sent {
        let process: ScriptWorkerID
        let piece: ScriptPiece
        let work: ScriptWork
        var check: ScriptBatchCheck
        /// They count when the batch is finished.
        var results = ScriptResults()

        var timeouts: Int { results.failures.count { $0.kind == .timedOut } }
    }

    let environment: Environment
    let lane: any Lane
    let category: String
    private let arguments: [String]
    private let json = JSONValidator()
    private var schedule: ScriptSchedule
    private var jobs: [UInt64: Job] = [:]
    private var sent: [UInt32: Sent] = [:]
    private var processes: [ScriptWorkerID: ScriptProcess] = [:]
    private var jobNumbers: UInt64 = 0
    private let functionNumbers = Guarded<UInt32>(0)
    private var alarm = Alarm()
    /// Called when all processes have ended; nil while the pool runs.
    private var stopped: (@Sendable () -> Void)?

    private struct Alarm {
        var timer: LaneTimer?
        var at: UInt64 = .max
    }

    /// A pool without processes.
    ///
    /// - Parameters:
    ///   - environment: Starts the processes.
    ///   - lane: Where the pool works; its owner stops it after the pool.
    ///   - category: Of its events in the trace: what the functions belong to.
    ///   - limits: Of the schedule.
    ///   - allowsUnfiltered: Whether processes may run functions if the kernel does not filter their
    ///     system calls; otherwise they end.
    package init(
        _ environment: Environment,
        lane: any Lane,
        category: String,
        limits: ScriptScheduleLimits,
        allowsUnfiltered: Bool = false
    ) {
        self.environment = environment
        self.lane = lane
        self.category = category
        arguments =
            ["--memory", "\(limits.memoryBytesMax >> 20)"]
            + (allowsUnfiltered ? ["--unfiltered"] : [])
        schedule = ScriptSchedule(limits)
    }

    // MARK: From any thread

    /// A function that can be run from now on; it is checked only when it is.
    ///
    /// - Parameters:
    ///   - source: The author's text.
    ///   - use: What the function is for.
    ///   - bucket: The UUID of the bucket, or the name of the database, whose documents it reads.
    ///   - timeoutMilliseconds: Processor time of one call.
    ///   - library: What a sync function may use beside the language.
    /// - Returns: The function, with a number of its own.
    package func function(
        _ source: String,
        _ use: ScriptUse,
        ofBucket bucket: String,
        timeoutMilliseconds: UInt32,
        library: ScriptLibrary? = nil
    ) -> ScriptFunction {
        let number = functionNumbers.withLock { last in
            last += 1
            return last
        }
        return ScriptFunction(
            number: number,
            bucket: bucket,
            use: use,
            source: source,
            library: library,
            timeoutMilliseconds: timeoutMilliseconds
        )
    }

    /// Runs a function for some items.
    ///
    /// - Parameters:
    ///   - work: The function and its items.
    ///   - isAwaited: Whether a client waits for it, so that it fails if no process can be started; nil:
    ///     by the function's use, for all but map functions.
    ///   - done: Called once, on the pool's lane.
    package func submit(
        _ work: ScriptWork,
        isAwaited: Bool? = nil,
        done: @escaping Done
    ) {
        let demand: ScriptJob.Demand
        if isAwaited ?? (work.function.use != .map) {
            // The documents of a sync function are independent of each other.
            demand = work.function.use == .sync ? .each : .whole
        } else {
            demand = .background
        }
        lane.post { self.add(work, demand, done: done) }
    }

    /// The processes, their memory and the unanswered works at one time.
    package struct Usage: Hashable, Sendable {
        package var processes = 0
        package var residentBytes: UInt64 = 0
        /// Works that are not answered yet.
        package var works = 0

        package init() {}
    }

    /// Passes what the processes use to `done`, on the pool's lane.
    package func measure(_ done: @escaping @Sendable (Usage) -> Void) {
        lane.post { [self] in
            var usage = Usage()
            usage.processes = processes.count
            usage.residentBytes = processes.values.reduce(0) { $0 + ($1.residentBytes ?? 0) }
            usage.works = jobs.count
            done(usage)
        }
    }

    /// Frees a function in all processes, because no work of it will be submitted.
    ///
    /// Works of a map or sync function that are not answered yet fail, as if the pool had stopped: the
    /// index that needed them is closed, or the database has another function, whose decisions count now.
    /// Queries get what they wait for.
    package func forget(_ function: ScriptFunction) {
        lane.post { [self] in
            if function.use != .reduce {
                let useless = jobs.filter { $0.value.work.function == function }
                for (number, job) in useless.sorted(by: { $0.key < $1.key }) {
                    jobs[number] = nil
                    job.timer?.cancel()
                    handle(.cancelled(job: number))
                    job.done(ScriptResults(stoppedBefore: job.work))
                }
            }
            for process in processes.values { process.forget(function) }
            handle(.forgotten(function: function.number))
        }
    }

    /// Kills all processes; each item of a work that is not answered yet, or is submitted later, fails.
    ///
    /// - Parameter done: Called on the pool's lane when all processes have ended.
    package func stop(_ done: @escaping @Sendable () -> Void = {}) {
        lane.post { [self] in
            guard stopped == nil else { return done() }
            // A process has no reference to the pool that would keep it until then.
            stopped = { withExtendedLifetime(self) { done() } }
            alarm.timer?.cancel()
            let pending = jobs.sorted { $0.key < $1.key }
            jobs = [:]
            sent = [:]
            for (_, job) in pending { job.done(ScriptResults(stoppedBefore: job.work)) }
            for process in processes.values { process.kill() }
            finishStop()
        }
    }

    private func finishStop() {
        guard let stopped, processes.isEmpty else { return }
        self.stopped = {}
        stopped()
    }

    private var isStopped: Bool { stopped != nil }

    // MARK: Work

    private var now: UInt64 { environment.time.monotonicNanoseconds() }

    private func add(_ work: ScriptWork, _ demand: ScriptJob.Demand, done: @escaping Done) {
        guard !isStopped else { return done(ScriptResults(stoppedBefore: work)) }
        jobNumbers += 1
        jobs[jobNumbers] = Job(work: work, done: done)
        let job = ScriptJob(
            number: jobNumbers,
            function: work.function.number,
            bucket: work.function.bucket,
            itemCount: work.count,
            demand: demand
        )
        if job.isInteractive { watch(jobNumbers) }
        handle(.submitted(job))
    }

    /// Fails the work of a client if no process can be started: the client has no other limit.
    ///
    /// Changes wait instead, since an index must not omit their documents.
    private func watch(_ number: UInt64) {
        jobs[number]?.timer = lane.post(after: ScriptPool.unableNanoseconds) { [weak self] in
            guard let self, let job = jobs[number] else { return }
            let isSent = sent.values.contains { $0.piece.job == number }
            guard schedule.isUnable, !isSent else { return watch(number) }
            jobs[number] = nil
            handle(.cancelled(job: number))
            job.done(ScriptResults(withoutProcess: job.work))
        }
    }

    func handle(_ event: ScriptSchedule.Event) {
        guard !isStopped else { return }
        for action in schedule.handle(event, now: now) { perform(action) }
        setAlarm()
    }

    private func perform(_ action: ScriptSchedule.Action) {
        switch action {
        case .start(let id): start(id)
        case .send(let piece, let batch, let id): send(piece, batch, to: id)
        case .stop(let id, let reason):
            if !reason.isOrdinary {
                environment.trace.warning(category, "Ending a script process: \(reason.rawValue)")
            }
            processes[id]?.kill()
        case .discard(let batch): sent[batch]?.results = ScriptResults()
        case .skip(let blame): skip(blame)
        case .complete(let number):
            guard let job = jobs.removeValue(forKey: number) else { return }
            job.timer?.cancel()
            job.done(job.results)
        case .abandon(let number):
            guard var job = jobs.removeValue(forKey: number) else { return }
            job.timer?.cancel()
            job.results.isAbandoned = true
            if job.work.function.use == .sync { job.failAbandonedItems() }
            job.done(job.results)
        }
    }

    private func start(_ id: ScriptWorkerID) {
        let program = ChildProgram(
            ScriptPool.programName,
            arguments: arguments,
            outputBytesMax: 2 * ScriptLimits.requestBytesMax,
            inputBytesMax: ScriptLimits.replyBytesMax
        )
        processes[id] = ScriptProcess(id, program, for: self)
    }

    private func send(_ piece: ScriptPiece, _ batch: UInt32, to id: ScriptWorkerID) {
        guard let job = jobs[piece.job] else { return }
        let check = ScriptBatchCheck(
            job.work.purpose,
            functions: [job.work.function.number],
            count: piece.items.count
        )
        sent[batch] = Sent(process: id, piece: piece, work: job.work, check: check)
        processes[id]?.send(job.work, piece.items, batch: batch)
    }

    private func skip(_ blame: ScriptBlame) {
        let (kind, text): (ScriptResults.Failure.Kind, String) =
            switch blame.reason {
            case .memory:
                (
                    .endedProcess,
                    "The function used more than \(schedule.limits.memoryBytesMax >> 20) MiB of memory, "
                        + "or ended its process in another way. Let it allocate less for this document."
                )
            case .timedOut:
                (.timedOut, "The function could not be interrupted after its time was over.")
            case .invalidReply: (.invalidReply, "The function disturbed its process.")
            }
        jobs[blame.job]?.results.failures.append(
            ScriptResults.Failure(item: blame.item, kind: kind, line: 0, text: text)
        )
    }

    // MARK: Replies

    /// Handles a frame of a process.
    func receive(_ frame: ScriptFrame, from id: ScriptWorkerID) {
        guard let reply = ScriptReply(frame) else { return handle(.violated(id)) }
        switch reply {
        case .ready(let version, let isFiltered):
            guard version == ScriptFrame.version else {
                environment.trace.error(
                    category,
                    "\(ScriptPool.programName) is of another release: install both programs together"
                )
                return handle(.violated(id))
            }
            if !isFiltered {
                environment.trace.warning(
                    category,
                    "The kernel cannot filter the system calls of script processes"
                )
            }
            handle(.ready(id))
        case .defined: break
        case .retiring: handle(.retiring(id))
        case .refused(let function, let complaint):
            processes[id]?.note(complaint, about: function)
        default: accept(reply, frame.batch, from: id)
        }
    }

    private func accept(_ reply: ScriptReply, _ batch: UInt32, from id: ScriptWorkerID) {
        guard schedule.accepts(id, batch: batch), var frame = sent[batch] else { return }
        if frame.check.accept(reply, isJSON: { json.isDocument($0) }) != nil {
            return handle(.violated(id))
        }
        sent[batch] = frame
        let first = frame.piece.items.lowerBound
        switch reply {
        case .executing: handle(.executing(id, batch: batch))
        case .rows(_, let rows):
            let piece = ScriptResults.Piece(firstItem: first, bytes: rows.bytes.bytes)
            sent[batch]?.results.pieces.append(piece)
        case .reductions(_, let reductions):
            let piece = ScriptResults.Piece(firstItem: first, bytes: reductions.bytes.bytes)
            sent[batch]?.results.pieces.append(piece)
        case .problems(_, var problems):
            while let problem = problems.next() {
                let complaint =
                    problem.reason == .undefined
                    ? processes[id]?.complaints[frame.work.function.number] : nil
                let failure = ScriptResults.Failure(
                    item: first + Int(problem.item),
                    kind: problem.reason == .timedOut ? .timedOut : .problem(problem.reason),
                    line: complaint?.line ?? problem.line,
                    text: complaint?.text ?? problem.text.text
                )
                sent[batch]?.results.failures.append(failure)
            }
        case .log(_, let dropped, let text):
            sent[batch]?.results.addLog(text.text, dropped: Int(dropped))
        case .overran(_, let item):
            // Jobs that calls left behind belong to the only call of a piece.
            let call = item.map(Int.init) ?? (frame.piece.isSingle ? 0 : nil)
            if let call { handle(.overran(id, batch: batch, item: first + call)) }
        case .finished:
            sent[batch] = nil
            jobs[frame.piece.job]?.results.add(frame.results)
            jobs[frame.piece.job]?.finished.append(frame.piece.items)
            handle(.finished(id, batch: batch, timeouts: frame.timeouts))
        case .ready, .defined, .refused, .retiring: break
        }
    }

    /// The process has ended.
    func ended(_ id: ScriptWorkerID) {
        if processes.removeValue(forKey: id) != nil {
            sent = sent.filter { $0.value.process != id }
            finishStop()
        }
        handle(.ended(id))
    }

    // MARK: Time

    private func setAlarm() {
        var due = schedule.nextDeadline ?? .max
        if !sent.isEmpty { due = min(due, now + ScriptPool.measureNanoseconds) }
        guard due < alarm.at else { return }
        alarm.timer?.cancel()
        let now = now
        alarm.at = due
        alarm.timer = lane.post(after: due > now ? due - now : 0) { [weak self] in self?.ring() }
    }

    private func ring() {
        alarm = Alarm()
        guard !isStopped else { return }
        for (id, process) in processes.sorted(by: { $0.key.generation < $1.key.generation }) {
            if let bytes = process.residentBytes {
                handle(.measured(id, residentBytes: bytes))
            }
        }
        handle(.timer)
    }
}
