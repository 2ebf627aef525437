/// Jobs and what is known of their functions.
extension ScriptSchedule {
    mutating func submit(_ job: ScriptJob) {
        precondition(jobs[job.number] == nil, "a job is submitted once")
        jobs[job.number] = Job(
            function: job.function,
            demand: job.demand,
            left: job.itemCount
        )
        addFunction(job.function, ofBucket: job.bucket)
        let floor = floor(of: trust(of: job.function) ?? .new, except: job.function)
        changeFunction(job.function) { queue in
            if queue.jobs == 0 { queue.join(at: floor) }
            queue.jobs += 1
            queue.isInteractive = job.isInteractive
            queue.isForgotten = false
            let piece = ScriptPiece(job: job.number, items: 0..<job.itemCount)
            queue.waiting.append(ScriptFunctionQueue.Waiting(piece: piece))
        }
    }

    /// Removes a job; what workers execute of it has no effect.
    mutating func removeJob(_ number: UInt64) {
        guard let job = jobs.removeValue(forKey: number) else { return }
        changeFunction(job.function) { queue in
            queue.waiting.removeAll { $0.piece.job == number }
            queue.jobs -= 1
        }
    }

    /// Forgets what is known of a function as soon as it has no jobs.
    mutating func forget(_ function: UInt32) {
        changeFunction(function) { $0.isForgotten = true }
    }

    /// Counts calls that have a result or are skipped.
    mutating func count(_ calls: Int, of number: UInt64) {
        guard let job = jobs[number] else { return }
        precondition(job.left >= calls, "a call has one result")
        jobs[number]?.left -= calls
        guard job.left == calls else { return }
        removeJob(number)
        actions.append(.complete(job: number))
    }

    /// Changes the reputation of a function, and moves it to the workers of its trust.
    mutating func changeReputation(_ function: UInt32, _ body: (inout ScriptReputation) -> Void) {
        guard let earlier = trust(of: function) else { return }
        changeFunction(function) { body(&$0.reputation) }
        guard let trust = trust(of: function), trust != earlier else { return }
        let floor = floor(of: trust, except: function)
        changeFunction(function) { $0.join(at: floor) }
        if trust == .suspected { recall(function) }
    }

    /// Abandons jobs that have no use any more, after a call of the function failed.
    ///
    /// An index is not built further after so many failures in succession (`RunawayRule`), and each of
    /// the remaining calls may use up its whole time. A client whose calls fail so does not end the
    /// jobs of others.
    mutating func abandonHopeless(_ function: UInt32, _ failed: UInt64) {
        guard let reputation = functions[function]?.reputation else { return }
        let isRunaway = reputation.failuresInSuccession >= RunawayRule.successionMax
        let hopeless = jobs.filter { number, job in
            guard job.function == function else { return false }
            switch job.demand {
            case .background: return isRunaway
            case .whole: return number == failed
            case .each: return isRunaway && number == failed
            }
        }
        for number in hopeless.keys.sorted() {
            removeJob(number)
            actions.append(.abandon(job: number))
        }
    }

    /// Puts pieces before those that wait, in their order.
    mutating func putBack(_ pieces: [(function: UInt32, waiting: ScriptFunctionQueue.Waiting)]) {
        for (function, waiting) in pieces.reversed() where jobs[waiting.piece.job] != nil {
            changeFunction(function) { $0.waiting.insert(waiting, at: 0) }
        }
    }

    /// Ends other workers' frames of a function that is suspected from now on.
    private mutating func recall(_ function: UInt32) {
        for worker in workers.prefix(limits.quarantineSlot).compactMap({ $0 })
        where worker.sent.contains(where: { $0.function == function }) {
            stop(worker.id, .recalled)
        }
    }

    /// The least time that another function of the trust with jobs has used, in nanoseconds; nil without one.
    private func floor(of trust: ScriptReputation.Trust, except function: UInt32) -> UInt64? {
        var least: UInt64?
        for job in jobs.values where job.function != function {
            guard let queue = functions[job.function], queue.reputation.trust == trust else {
                continue
            }
            least = min(least ?? .max, queue.usedNanoseconds)
        }
        return least
    }
}
