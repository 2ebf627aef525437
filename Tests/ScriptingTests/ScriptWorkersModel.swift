import Scripting

/// Script processes that take virtual time, for tests of the schedule.
struct ScriptWorkersModel {
    /// What a call of a function does.
    enum Call {
        case takes(UInt64)
        /// It is ended by its process after a second.
        case timesOut
        /// Its process dies.
        case kills
    }

    private struct Process {
        /// When the next thing happens to it: it is ready, its piece or its life ends.
        var time: UInt64
        var isReady = false
        var isDying = false
        /// The oldest one first; the process executes it.
        var frames: [(batch: UInt32, piece: ScriptPiece)] = []
        var timeouts = 0
    }

    static let millisecond: UInt64 = 1_000_000
    private static let startNanoseconds = 20 * millisecond
    private static let timeoutNanoseconds = 1_100 * millisecond

    private(set) var schedule: ScriptSchedule
    private(set) var now: UInt64 = 1_000_000_000
    /// The time of execution by function, of pieces that ended.
    private(set) var used: [UInt32: UInt64] = [:]
    /// When jobs were complete or abandoned.
    private(set) var ends: [UInt64: UInt64] = [:]
    private(set) var abandoned: Set<UInt64> = []
    private(set) var skipped: [ScriptBlame] = []
    /// Slots in which each function was executed.
    private(set) var places: [UInt32: Set<Int>] = [:]
    /// Functions in the order in which their pieces began.
    private(set) var order: [UInt32] = []
    private(set) var processesMax = 0
    /// By function; "a" if a function is missing.
    var buckets: [UInt32: String] = [:]
    /// The buckets of the functions that each process had.
    private(set) var tenants: [ScriptWorkerID: Set<String>] = [:]
    private var calls: [UInt32: (_ job: UInt64, _ item: Int) -> Call] = [:]
    private var jobs: [UInt64: UInt32] = [:]
    private var processes: [ScriptWorkerID: Process] = [:]

    init(processors: Int) {
        schedule = ScriptSchedule(ScriptScheduleLimits(processors: processors))
    }

    var processCount: Int { processes.count }

    mutating func define(
        _ function: UInt32,
        _ call: @escaping (_ job: UInt64, _ item: Int) -> Call
    ) {
        calls[function] = call
    }

    mutating func submit(
        _ number: UInt64,
        of function: UInt32,
        items: Int,
        demand: ScriptJob.Demand = .background
    ) {
        jobs[number] = function
        handle(
            .submitted(
                ScriptJob(
                    number: number,
                    function: function,
                    bucket: buckets[function] ?? "a",
                    itemCount: items,
                    demand: demand
                )
            )
        )
    }

    /// Lets time pass until the condition holds, or for the given time.
    mutating func run(
        for nanoseconds: UInt64,
        until isDone: (ScriptWorkersModel) -> Bool = { _ in false }
    ) {
        let end = now + nanoseconds
        while !isDone(self) {
            let next = processes.min { ($0.value.time, $0.key.slot) < ($1.value.time, $1.key.slot) }
            let deadline = schedule.nextDeadline ?? .max
            let time = min(next?.value.time ?? .max, deadline)
            guard time <= end else { break }
            now = max(now, time)
            if let next, next.value.time <= deadline { step(next.key) } else { handle(.timer) }
        }
        if !isDone(self) { now = end }
    }

    /// Makes a function proven by calls that take a microsecond.
    mutating func prove(_ function: UInt32, job: UInt64) {
        define(function) { _, _ in .takes(1_000) }
        submit(job, of: function, items: 200)
        run(for: 10_000_000_000) { $0.ends[job] != nil }
    }

    private mutating func step(_ id: ScriptWorkerID) {
        guard var process = processes[id] else { return }
        if process.isDying {
            processes[id] = nil
            return handle(.ended(id))
        }
        guard process.isReady else {
            process.isReady = true
            process.time = .max
            processes[id] = process
            return handle(.ready(id))
        }
        let (batch, _) = process.frames.removeFirst()
        let timeouts = process.timeouts
        process.time = .max
        processes[id] = process
        handle(.finished(id, batch: batch, timeouts: timeouts))
        executeNext(id)
    }

    private mutating func executeNext(_ id: ScriptWorkerID) {
        guard var process = processes[id], process.isReady, !process.isDying, process.time == .max,
            let (batch, piece) = process.frames.first, let function = jobs[piece.job]
        else { return }
        var nanoseconds: UInt64 = 0
        process.timeouts = 0
        for item in piece.items where !process.isDying {
            switch calls[function]?(piece.job, item) ?? .takes(0) {
            case .takes(let time): nanoseconds += time
            case .timesOut:
                nanoseconds += ScriptWorkersModel.timeoutNanoseconds
                process.timeouts += 1
            case .kills:
                nanoseconds += 100 * ScriptWorkersModel.millisecond
                process.isDying = true
            }
        }
        process.time = now + nanoseconds
        processes[id] = process
        used[function, default: 0] += nanoseconds
        places[function, default: []].insert(id.slot)
        order.append(function)
        handle(.executing(id, batch: batch))
    }

    private mutating func handle(_ event: ScriptSchedule.Event) {
        var touched: [ScriptWorkerID] = []
        for action in schedule.handle(event, now: now) {
            switch action {
            case .start(let id):
                processes[id] = Process(time: now + ScriptWorkersModel.startNanoseconds)
            case .send(let piece, let batch, let id):
                processes[id]?.frames.append((batch, piece))
                let bucket = jobs[piece.job].flatMap { buckets[$0] } ?? "a"
                tenants[id, default: []].insert(bucket)
                touched.append(id)
            case .stop(let id, _):
                processes[id]?.isDying = true
                processes[id]?.time = now + ScriptWorkersModel.millisecond
            case .discard: break
            case .skip(let blame): skipped.append(blame)
            case .complete(let job): ends[job] = now
            case .abandon(let job):
                ends[job] = now
                abandoned.insert(job)
            }
        }
        processesMax = max(processesMax, processes.count)
        for id in touched { executeNext(id) }
    }
}
