import Bytes
import Scripting
import TestSupport
import Testing

/// Random lives of workers: deaths at every point, late events of dead processes, deadly calls.
@Suite struct ScriptScheduleWalkTests {
    @Test(arguments: 1...60) func everyCallHasOneResultOrIsSkipped(seed: UInt64) {
        var walk = ScriptWalk(seed: seed)
        walk.run()
        #expect(walk.problem == nil, "seed \(seed): \(walk.problem ?? "")")
        #expect(walk.completed == walk.submitted, "seed \(seed)")
    }
}

/// Processes that behave as the seed decides, and the rules that every step is checked against.
private struct ScriptWalk {
    private struct Call: Hashable {
        let job: UInt64
        let item: Int
    }

    private struct Process {
        var isReady = false
        var isStopped = false
        var bucket: String?
        /// Batches with what is not finished, the oldest first.
        var batches: [(number: UInt32, piece: ScriptPiece, isExecuting: Bool)] = []
    }

    private(set) var problem: String?
    private(set) var submitted: Set<UInt64> = []
    private(set) var completed: Set<UInt64> = []
    private var open: [UInt64: UInt32] = [:]
    private var schedule: ScriptSchedule
    private var random: SeededRandom
    private var now: UInt64 = 5
    private var processes: [ScriptWorkerID: Process] = [:]
    private var dead: [(ScriptWorkerID, UInt32)] = []
    private var deadly: Set<Call> = []
    private var results: Set<Call> = []

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        schedule = ScriptSchedule(ScriptScheduleLimits(processors: Int(1 + random.next() % 6)))
    }

    private func bucket(of function: UInt32) -> String { "bucket \(function % 3)" }

    mutating func run() {
        for step in 0..<2_000 where problem == nil {
            now += random.next() % 20_000_000
            let hasRoom = submitted.count < completed.count + 12
            if step < 600, random.below(10) == 0, hasRoom { submit() }
            if step < 600, random.below(100) == 0 { cancel() }
            if random.below(4) == 0 { lateEvent() }
            move(isCalm: step > 1_200)
            if step % 50 == 0 { pass() }
        }
        // The rest, without random deaths.
        for _ in 0..<20_000 where problem == nil && completed != submitted {
            move(isCalm: true)
            pass()
        }
    }

    private mutating func submit() {
        let number = UInt64(submitted.count + 1)
        submitted.insert(number)
        let items = 1 + random.below(20)
        for item in 0..<items where random.below(30) == 0 {
            deadly.insert(Call(job: number, item: item))
        }
        let function = UInt32(random.below(7))
        let job = ScriptJob(
            number: number,
            function: function,
            bucket: bucket(of: function),
            itemCount: items,
            demand: ScriptJob.Demand.allCases[random.below(3)]
        )
        open[number] = job.function
        handle(.submitted(job))
    }

    private mutating func cancel() {
        let open = submitted.subtracting(completed).sorted()
        guard !open.isEmpty else { return }
        let job = open[random.below(open.count)]
        completed.insert(job)
        handle(.cancelled(job: job))
    }

    /// An event of a process that has ended must change nothing.
    private mutating func lateEvent() {
        guard !dead.isEmpty else { return }
        let (id, batch) = dead[random.below(dead.count)]
        if schedule.accepts(id, batch: batch) { problem = "a dead process is accepted" }
        let events: [ScriptSchedule.Event] = [
            .ready(id), .executing(id, batch: batch), .ended(id),
            .finished(id, batch: batch, timeouts: 0),
            .measured(id, residentBytes: .max), .retiring(id),
        ]
        handle(events[random.below(events.count)])
    }

    /// Lets the next deadline pass.
    private mutating func pass() {
        if let deadline = schedule.nextDeadline { now = max(now, min(deadline, now + 1 << 34)) }
        handle(.timer)
    }

    /// One step of one process.
    private mutating func move(isCalm: Bool) {
        let ids = processes.keys.sorted { ($0.slot, $0.generation) < ($1.slot, $1.generation) }
        guard !ids.isEmpty else { return }
        let id = ids[random.below(ids.count)]
        guard let process = processes[id] else { return }
        if process.isStopped || !isCalm && random.below(25) == 0 { return die(id) }
        guard process.isReady else {
            processes[id]?.isReady = true
            return handle(.ready(id))
        }
        if !isCalm, random.below(20) == 0 {
            return handle(.measured(id, residentBytes: UInt64(random.below(300)) << 20))
        }
        guard let first = process.batches.first else { return }
        guard first.isExecuting else {
            if !isCalm, random.below(40) == 0 {
                handle(.retiring(id))
                return die(id)
            }
            if !isCalm, random.below(40) == 0 { return handle(.violated(id)) }
            processes[id]?.batches[0].isExecuting = true
            return handle(.executing(id, batch: first.number))
        }
        execute(first.piece, batch: first.number, on: id)
    }

    private mutating func execute(_ piece: ScriptPiece, batch: UInt32, on id: ScriptWorkerID) {
        let calls = piece.items.map { Call(job: piece.job, item: $0) }
        if let fatal = calls.first(where: deadly.contains) {
            if random.below(5) == 0 { handle(.overran(id, batch: batch, item: fatal.item)) }
            return die(id)
        }
        guard schedule.accepts(id, batch: batch) else {
            problem = "a result of batch \(batch) is refused"
            return
        }
        if !completed.contains(piece.job) { for call in calls { count(call) } }
        processes[id]?.batches.removeFirst()
        let timeouts = random.below(12) == 0 ? 1 + random.below(piece.items.count) : 0
        handle(.finished(id, batch: batch, timeouts: timeouts))
    }

    private mutating func die(_ id: ScriptWorkerID) {
        let batches = processes[id]?.batches ?? []
        dead += batches.map { (id, $0.number) } + [(id, 0)]
        processes[id] = nil
        handle(.ended(id))
    }

    private mutating func count(_ call: Call) {
        if !results.insert(call).inserted { problem = "\(call) has a second result" }
    }

    private mutating func handle(_ event: ScriptSchedule.Event) {
        for action in schedule.handle(event, now: now) { apply(action) }
        if processes.count != schedule.workerCount { problem = "the number of processes differs" }
        if processes.count > schedule.limits.slots { problem = "too many processes" }
    }

    private mutating func apply(_ action: ScriptSchedule.Action) {
        switch action {
        case .start(let id):
            let hasOther = processes.keys.contains {
                $0.slot == id.slot || $0.generation == id.generation
            }
            if hasOther { problem = "\(id) is started beside another" }
            processes[id] = Process()
        case .send(let piece, let batch, let id):
            guard let process = processes[id], process.isReady, !process.isStopped else {
                problem = "a frame is sent to \(id), which is not ready"
                return
            }
            let isOrdinary = id.slot < schedule.limits.workersMax
            let most = isOrdinary ? schedule.limits.sentMax : 1
            checkPlace(of: piece, on: id)
            if process.batches.count >= most { problem = "\(id) has too many frames" }
            let bucket = open[piece.job].map { self.bucket(of: $0) }
            if process.bucket != nil, process.bucket != bucket {
                problem = "\(id) works for two buckets"
            }
            processes[id]?.bucket = bucket
            processes[id]?.batches.append((batch, piece, false))
        case .stop(let id, _):
            if processes[id]?.isStopped != false { problem = "\(id) is stopped twice" }
            processes[id]?.isStopped = true
        case .discard: break
        case .skip(let blame):
            count(Call(job: blame.job, item: blame.item))
        case .complete(let job), .abandon(let job):
            if !completed.insert(job).inserted { problem = "job \(job) ends twice" }
        }
    }

    /// A frame goes to a worker of its function's trust.
    private mutating func checkPlace(of piece: ScriptPiece, on id: ScriptWorkerID) {
        guard let trust = open[piece.job].flatMap({ schedule.trust(of: $0) }),
            schedule.limits.slots(of: trust).contains(id.slot)
        else {
            problem = "a piece of job \(piece.job) is sent to the wrong worker \(id)"
            return
        }
    }
}
