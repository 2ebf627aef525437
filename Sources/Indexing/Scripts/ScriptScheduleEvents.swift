/// One process of a worker.
///
/// A worker that is replaced has another generation, so that a late reply of its predecessor is
/// recognised.
package struct ScriptWorkerID: Hashable, Sendable, CustomStringConvertible {
    /// From 0; the last one is the penalty worker.
    package let slot: Int
    /// Different for every process of the node.
    package let generation: UInt32

    package init(slot: Int, generation: UInt32) {
        self.slot = slot
        self.generation = generation
    }

    package var description: String { "\(slot).\(generation)" }
}

extension ScriptSchedule {
    /// What happened to jobs and workers.
    package enum Event: Hashable, Sendable {
        case submitted(ScriptJob)
        /// The results of the job are not needed any more.
        case cancelled(job: UInt64)
        /// The process has started and speaks the protocol.
        case ready(ScriptWorkerID)
        /// The process calls the next function of the batch.
        case executing(ScriptWorkerID, batch: UInt32)
        /// All results of the executing function were received and accepted.
        case finished(ScriptWorkerID, batch: UInt32)
        /// A reply that its request does not allow.
        case violated(ScriptWorkerID)
        /// The call with this item of the job could not be interrupted; the process ends.
        case overran(ScriptWorkerID, batch: UInt32, item: Int)
        case measured(ScriptWorkerID, residentBytes: UInt64)
        /// The process has ended, or could not be started.
        case ended(ScriptWorkerID)
        /// The time that `nextDeadline` named has come.
        case timer
    }

    /// What to do, in this order.
    package enum Action: Hashable, Sendable {
        case start(ScriptWorkerID)
        case send(ScriptPiece, batch: UInt32, to: ScriptWorkerID)
        /// Kills the process; `ended` follows.
        case stop(ScriptWorkerID, StopReason)
        /// Drops the results of the batch's executing function: it is called again.
        case discard(batch: UInt32)
        /// This call has no result.
        case skip(ScriptBlame)
        /// Every call of the job has a result or was skipped.
        case complete(job: UInt64)
    }

    package enum StopReason: String, Hashable, Sendable {
        case idle = "it was not used"
        case recycled = "it used much of its memory between frames"
        case memory = "it used more memory than its limit"
        case violated = "it sent an invalid reply"
        case overran = "a call could not be interrupted"
        case hung = "it made no progress"
    }
}

/// A call that is skipped because it ends workers.
package struct ScriptBlame: Hashable, Sendable {
    package enum Reason: String, Hashable, Sendable {
        /// It ended a fresh process twice, above all by its memory.
        case memory
        case timedOut
        case invalidReply
    }

    package let job: UInt64
    /// An index of the job's functions.
    package let function: Int
    /// An index of the job's items.
    package let item: Int
    package let reason: Reason

    package init(job: UInt64, function: Int, item: Int, reason: Reason) {
        self.job = job
        self.function = function
        self.item = item
        self.reason = reason
    }
}

/// The bounds of the workers, each with its reason.
package struct ScriptScheduleLimits: Hashable, Sendable {
    /// Processes, without the penalty worker.
    package var workersMax: Int
    /// Frames of one worker: it always has a next one, and loses few when it dies.
    package var sentMax = 4
    package var idleNanoseconds: UInt64 = 300_000_000_000
    /// Resident bytes above which a process is killed.
    package var memoryBytesMax: UInt64 = 256 << 20
    /// Timeout of the start, which takes 15 to 25 ms.
    package var startNanoseconds: UInt64 = 30_000_000_000
    /// The longest time after which a process itself interrupts a call.
    ///
    /// Without progress for this time per item of a frame and the start's timeout, it is killed.
    package var itemNanoseconds: UInt64 = 10_000_000_000
    /// The pause after the first failed start; doubled with each further one.
    package var pauseNanoseconds: UInt64 = 100_000_000
    package var pauseNanosecondsMax: UInt64 = 30_000_000_000
    /// Deaths of a fresh process after which a call is skipped.
    package var strikesMax = 2

    /// The limits on a machine: one processor is left to the node.
    package init(processors: Int) {
        workersMax = min(4, max(1, processors - 1))
    }

    /// Resident bytes above which a process is replaced between two frames.
    package var recycleBytes: UInt64 { memoryBytesMax / 10 * 6 }

    /// The slot of the penalty worker.
    package var penaltySlot: Int { workersMax }
}
