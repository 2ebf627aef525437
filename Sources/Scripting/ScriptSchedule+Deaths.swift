/// The end of a process, and the resending or skipping of its frames.
extension ScriptSchedule {
    mutating func end(_ id: ScriptWorkerID, _ now: UInt64) {
        guard let worker = live(id) else { return }
        workers[id.slot] = nil
        recordFailure(of: worker, now)
        for sent in worker.sent {
            let used = sent.isExecuting ? now - worker.lastStep : 0
            changeFunction(sent.function) { $0.correct(sent.estimate, to: used) }
        }
        guard let first = worker.sent.first else { return }
        if first.isExecuting { actions.append(.discard(batch: first.batch)) }
        // Frames that the process had not begun are sent again, in their order, before others.
        if isBlameless(first, worker) { return resend(worker.sent[...]) }
        resend(worker.sent.dropFirst())
        guard jobs[first.piece.job] != nil else { return }
        if let item = first.overran {
            resend(first.piece.without(item: item), of: first.function)
            skip(first, item, reason: .timedOut)
        } else {
            // A process begins with the oldest frame; it may have died while it read it.
            suspect(first, worker)
        }
    }

    /// Whether the oldest frame did not cause the end: earlier frames left the memory in use.
    private func isBlameless(_ first: Sent, _ worker: Worker) -> Bool {
        switch worker.phase {
        case .stopping(.recalled), .stopping(.recycled): true
        case .stopping(.memory): !first.isExecuting && worker.isUseful
        default: false
        }
    }

    /// Delays the next start if the process was of no use.
    private mutating func recordFailure(of worker: Worker, _ now: UInt64) {
        if case .stopping(let reason) = worker.phase {
            switch reason {
            case .idle, .recycled, .recalled, .reassigned: return
            // The process did what its function demanded.
            case .slow, .memory, .overran: if !worker.sent.isEmpty { return }
            case .violated, .hung: break
            }
        }
        // The quarantine worker's deaths with a frame are what it is for.
        let isQuarantine = worker.id.slot == limits.quarantineSlot
        guard !worker.isUseful, !isQuarantine || worker.sent.isEmpty else { return }
        failures += 1
        let doublings = min(failures - 1, 20)
        let pause = min(limits.pauseNanosecondsMax, limits.pauseNanoseconds << doublings)
        startAllowedAt = now + pause
    }

    private mutating func resend(_ frames: ArraySlice<Sent>) {
        putBack(
            frames.map { sent in
                let waiting = ScriptFunctionQueue.Waiting(
                    piece: sent.piece,
                    strikes: sent.strikes
                )
                return (sent.function, waiting)
            }
        )
    }

    private mutating func resend(_ pieces: [ScriptPiece], of function: UInt32) {
        putBack(pieces.map { (function, ScriptFunctionQueue.Waiting(piece: $0)) })
    }

    /// Runs the piece again in the quarantine; skips it if it is one call that ended a fresh process
    /// as often as is allowed.
    private mutating func suspect(_ sent: Sent, _ worker: Worker) {
        var waiting = ScriptFunctionQueue.Waiting(piece: sent.piece)
        if worker.id.slot == limits.quarantineSlot, sent.piece.isSingle {
            waiting.strikes = sent.isTrial ? sent.strikes + 1 : sent.strikes
            guard waiting.strikes < limits.strikesMax else {
                return skip(sent, sent.piece.items.lowerBound, reason: reason(of: worker))
            }
            // A process that did other work before may have died of that: the call runs alone.
            waiting.needsFreshWorker = true
        }
        putBack([(sent.function, waiting)])
        changeReputation(sent.function) { $0.suspect() }
    }

    private func reason(of worker: Worker) -> ScriptBlame.Reason {
        switch worker.phase {
        case .stopping(.violated): .invalidReply
        case .stopping(.hung): .timedOut
        default: .memory
        }
    }

    private mutating func skip(_ sent: Sent, _ item: Int, reason: ScriptBlame.Reason) {
        actions.append(.skip(ScriptBlame(job: sent.piece.job, item: item, reason: reason)))
        count(1, of: sent.piece.job)
        changeReputation(sent.function) { $0.fail() }
        abandonHopeless(sent.function, sent.piece.job)
    }
}
