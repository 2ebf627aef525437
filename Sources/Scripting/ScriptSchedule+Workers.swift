/// Starting, using and stopping processes.
extension ScriptSchedule {
    /// Interactive pieces that may be sent in succession while others wait.
    private static let passedMax = 8

    /// The time at which a `timer` event is needed; nil if none is.
    package var nextDeadline: UInt64? {
        var deadlines = workers.compactMap { $0.flatMap(deadline)?.time }
        if let delayedStart { deadlines.append(delayedStart) }
        if let reassignableAt { deadlines.append(reassignableAt) }
        return deadlines.min()
    }

    private var isStarting: Bool { workers.contains { $0?.phase == .starting } }

    /// When the process is stopped if nothing happens, and why; nil for one that is being stopped.
    private func deadline(_ worker: Worker) -> (time: UInt64, reason: StopReason)? {
        switch worker.phase {
        case .starting: return (worker.lastStep + limits.startNanoseconds, .hung)
        case .stopping: return nil
        case .ready:
            guard let first = worker.sent.first else {
                let isOrdinary = worker.id.slot < limits.workersMax
                let idle = isOrdinary ? limits.idleNanoseconds : limits.sideIdleNanoseconds
                return (worker.lastStep + idle, .idle)
            }
            guard worker.id.slot == limits.quarantineSlot else {
                return (worker.lastStep + limits.sliceNanoseconds, .slow)
            }
            let items = UInt64(first.piece.items.count)
            let longest = items * limits.itemNanoseconds + limits.startNanoseconds
            return (worker.lastStep + longest, .hung)
        }
    }

    /// Stops processes whose deadline has passed, or whose memory is better returned.
    mutating func stopOverdue(_ now: UInt64) {
        for worker in workers.compactMap({ $0 }) {
            if let deadline = deadline(worker), deadline.time <= now {
                stop(worker.id, deadline.reason)
            } else if worker.phase == .ready, worker.sent.isEmpty {
                if worker.isRetiring { stop(worker.id, .recycled) }
                if worker.isYielding { stop(worker.id, .reassigned) }
            }
        }
    }

    /// Sends waiting pieces of functions of some trust to their workers, and starts workers.
    mutating func dispatch(_ trust: ScriptReputation.Trust, _ now: UInt64) {
        let slots = limits.slots(of: trust)
        while let (worker, function) = nextAssignment(trust, in: slots) {
            let needsFresh = functions[function]?.waiting.first?.needsFreshWorker == true
            guard !needsFresh || worker.isFresh else {
                if worker.sent.isEmpty { stop(worker.id, .recycled) }
                break
            }
            send(function, to: worker.id, now)
        }
        startMissing(in: slots, trust, now)
        makeRoom(in: slots, trust, now)
    }

    private mutating func startMissing(
        in slots: Range<Int>,
        _ trust: ScriptReputation.Trust,
        _ now: UInt64
    ) {
        var pieces = 0
        var buckets: Set<String> = []
        forEachWaiting(trust) { _, queue in
            pieces += queue.waiting.count
            buckets.insert(queue.bucket)
        }
        let existing = workers[slots].compactMap { $0 }
        // The frame that a process executes when it is stopped does not return to the same workers.
        let frames = existing.reduce(0) { sum, worker in
            sum + (worker.isStopping ? max(0, worker.sent.count - 1) : worker.sent.count)
        }
        let wanted = min(slots.count, pieces + frames)
        let useful = existing.count { worker in
            guard !worker.isStopping else { return false }
            return !worker.sent.isEmpty || worker.bucket.map(buckets.contains) ?? true
        }
        var missing = wanted - useful
        for slot in slots where missing > 0 && workers[slot] == nil {
            guard mayStart(now) else { return }
            start(slot: slot, now)
            missing -= 1
        }
    }

    /// The workers that have room for a frame.
    ///
    /// A worker outside the ordinary ones has one frame, so that a death has one cause. An ordinary
    /// one has a next frame while it executes, but none that would wait for long.
    func workersWithRoom(in slots: Range<Int>) -> [Worker] {
        workers[slots].compactMap { $0 }
            .filter { worker in
                guard worker.phase == .ready, !worker.isRetiring, !worker.isYielding else {
                    return false
                }
                guard !worker.sent.isEmpty else { return true }
                let queued = worker.sent.reduce(0) { $0 + $1.estimate }
                return worker.id.slot < limits.workersMax && worker.sent.count < limits.sentMax
                    && queued < ScriptReputation.targetNanoseconds
            }
    }

    /// Calls `body` with each function of some trust that waits.
    func forEachWaiting(
        _ trust: ScriptReputation.Trust,
        _ body: (_ function: UInt32, _ queue: ScriptFunctionQueue) -> Void
    ) {
        for number in waiting {
            guard let queue = functions[number], queue.reputation.trust == trust else { continue }
            body(number, queue)
        }
    }

    /// The waiting function that is served next: the least served one, and clients before indexes.
    ///
    /// - Parameters:
    ///   - trust: Where the function runs.
    ///   - isServed: Whether a worker can run functions of the bucket now.
    /// - Returns: Nil if no such function waits.
    mutating func nextFunction(
        _ trust: ScriptReputation.Trust,
        where isServed: (_ bucket: String) -> Bool
    ) -> UInt32? {
        var (interactive, other): (Served?, Served?)
        forEachWaiting(trust) { number, queue in
            guard isServed(queue.bucket) else { return }
            let served = Served(usedNanoseconds: queue.usedNanoseconds, function: number)
            if queue.isInteractive {
                interactive = interactive.map { min($0, served) } ?? served
            } else {
                other = other.map { min($0, served) } ?? served
            }
        }
        guard let interactive, let other else {
            passed[trust] = 0
            return (interactive ?? other)?.function
        }
        // Suspected functions of clients could occupy their worker for any time.
        guard trust != .suspected else { return min(interactive, other).function }
        guard passed[trust, default: 0] < ScriptSchedule.passedMax else {
            passed[trust] = 0
            return other.function
        }
        passed[trust, default: 0] += 1
        return interactive.function
    }

    /// A function with what it has used: ordered by that, then by its number.
    private struct Served: Comparable {
        let usedNanoseconds: UInt64
        let function: UInt32

        static func < (one: Served, other: Served) -> Bool {
            (one.usedNanoseconds, one.function) < (other.usedNanoseconds, other.function)
        }
    }

    /// Whether a process may be started: after a failure later, and one at a time.
    private mutating func mayStart(_ now: UInt64) -> Bool {
        guard failures > 0 else { return true }
        if now < startAllowedAt { delayedStart = startAllowedAt }
        return now >= startAllowedAt && !isStarting
    }
}
