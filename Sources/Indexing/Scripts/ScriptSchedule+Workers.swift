/// Starting, using and stopping processes.
extension ScriptSchedule {
    /// The time at which a `timer` event is needed; nil if none is.
    package var nextDeadline: UInt64? {
        var deadlines = workers.compactMap { $0.flatMap(deadline) }
        if let delayedStart { deadlines.append(delayedStart) }
        return deadlines.min()
    }

    private var isStarting: Bool { workers.contains { $0?.phase == .starting } }

    /// When the process is stopped if nothing happens; nil for one that is being stopped.
    private func deadline(_ worker: Worker) -> UInt64? {
        switch worker.phase {
        case .starting: return worker.lastStep + limits.startNanoseconds
        case .stopping: return nil
        case .ready:
            guard let first = worker.sent.first else {
                return worker.lastStep + limits.idleNanoseconds
            }
            let items = UInt64(first.piece.items.count)
            return worker.lastStep + items * limits.itemNanoseconds + limits.startNanoseconds
        }
    }

    /// Stops processes whose deadline has passed, or whose memory is better returned.
    mutating func stopOverdue(_ now: UInt64) {
        for worker in workers.compactMap({ $0 }) {
            if let deadline = deadline(worker), deadline <= now {
                let isIdle = worker.phase == .ready && worker.sent.isEmpty
                stop(worker.id, isIdle ? .idle : .hung)
            } else if worker.phase == .ready, worker.isRetiring, worker.sent.isEmpty {
                stop(worker.id, .recycled)
            }
        }
    }

    // MARK: Ordinary workers

    /// Sends queued pieces to the workers with the fewest frames, and starts workers for the rest.
    mutating func dispatch(_ now: UInt64) {
        while let piece = queue.first, let worker = leastBusy() {
            queue.removeFirst()
            send(piece, strikes: 0, to: worker.id, now)
        }
        let ordinary = workers.dropLast().compactMap { $0 }
        let wanted = min(limits.workersMax, queue.count + ordinary.map(\.sent.count).reduce(0, +))
        var missing = wanted - ordinary.count { !$0.isStopping }
        for slot in 0..<limits.workersMax where missing > 0 && workers[slot] == nil {
            guard mayStart(now) else { return }
            start(slot: slot, now)
            missing -= 1
        }
    }

    private func leastBusy() -> Worker? {
        workers.dropLast().compactMap { $0 }
            .filter { $0.phase == .ready && !$0.isRetiring && $0.sent.count < limits.sentMax }
            .min { $0.sent.count < $1.sent.count }
    }

    /// Whether a process may be started: after a failure later, and one at a time.
    private mutating func mayStart(_ now: UInt64) -> Bool {
        guard failures > 0 else { return true }
        if now < startAllowedAt { delayedStart = startAllowedAt }
        return now >= startAllowedAt && !isStarting
    }

    // MARK: The penalty worker

    /// Runs the next suspect, alone in its process.
    mutating func dispatchSuspects(_ now: UInt64) {
        guard let worker = workers[limits.penaltySlot] else {
            if !suspects.isEmpty, mayStart(now) { start(slot: limits.penaltySlot, now) }
            return
        }
        guard worker.phase == .ready, worker.sent.isEmpty else { return }
        guard let suspect = suspects.first else { return stop(worker.id, .idle) }
        guard !worker.isRetiring else { return }
        suspects.removeFirst()
        send(suspect.piece, strikes: suspect.strikes, to: worker.id, now)
    }
}
