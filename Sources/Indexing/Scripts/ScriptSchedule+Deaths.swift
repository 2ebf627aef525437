/// What the end of a process means for its frames.
extension ScriptSchedule {
    mutating func end(_ id: ScriptWorkerID, _ now: UInt64) {
        guard let worker = live(id) else { return }
        workers[id.slot] = nil
        noteFailure(of: worker, now)
        guard let first = worker.sent.first else { return }
        if first.isExecuting { actions.append(.discard(batch: first.batch)) }
        // Frames that the process had not begun are sent elsewhere, in their order, before others.
        resend(worker.sent.dropFirst().map(\.piece))
        guard jobs[first.piece.job] != nil else { return }
        if let item = first.overran {
            skipOverrun(first.piece, item)
        } else if first.isExecuting {
            resend(first.piece.withoutFirstFunction.map { [$0] } ?? [])
            suspect(first.piece.ofFirstFunction, worker, first)
        } else {
            // A process begins with the oldest frame; it may have died while it read it.
            suspect(first.piece, worker, first)
        }
    }

    /// Delays the next start if the process was of no use.
    private mutating func noteFailure(of worker: Worker, _ now: UInt64) {
        if case .stopping(let reason) = worker.phase, reason == .idle || reason == .recycled {
            return
        }
        // The penalty worker's deaths with a frame are what it is for.
        let isPenalty = worker.id.slot == limits.penaltySlot
        guard !worker.isUseful, !isPenalty || worker.sent.isEmpty else { return }
        failures += 1
        let doublings = min(failures - 1, 20)
        let pause = min(limits.pauseNanosecondsMax, limits.pauseNanoseconds << doublings)
        startAllowedAt = now + pause
    }

    private mutating func resend(_ pieces: [ScriptPiece]) {
        queue.insert(contentsOf: pieces.filter { jobs[$0.job] != nil }, at: 0)
    }

    /// Skips a call that is known to have caused the end, and sends the rest of its frame again.
    private mutating func skipOverrun(_ piece: ScriptPiece, _ item: Int) {
        let executing = piece.ofFirstFunction
        resend(executing.without(item: item) + (piece.withoutFirstFunction.map { [$0] } ?? []))
        skip(executing, item, .timedOut)
    }

    private mutating func suspect(_ piece: ScriptPiece, _ worker: Worker, _ sent: Sent) {
        guard worker.id.slot == limits.penaltySlot else {
            suspects.append(Suspect(piece: piece))
            return
        }
        guard piece.isSingle else {
            suspects.insert(contentsOf: piece.halves.map { Suspect(piece: $0) }, at: 0)
            return
        }
        // A process that did other work before may have died of that: the call runs again.
        let strikes = sent.isTrial ? sent.strikes + 1 : sent.strikes
        guard strikes >= limits.strikesMax else {
            suspects.insert(Suspect(piece: piece, strikes: strikes), at: 0)
            return
        }
        skip(piece, piece.items.lowerBound, reason(of: worker))
    }

    private func reason(of worker: Worker) -> ScriptBlame.Reason {
        switch worker.phase {
        case .stopping(.violated): .invalidReply
        case .stopping(.hung): .timedOut
        default: .memory
        }
    }

    private mutating func skip(_ piece: ScriptPiece, _ item: Int, _ reason: ScriptBlame.Reason) {
        let function = piece.functions.lowerBound
        actions.append(
            .skip(ScriptBlame(job: piece.job, function: function, item: item, reason: reason))
        )
        count(1, of: piece.job)
    }
}
