/// One process of a worker.
///
/// A worker that is replaced has another generation, so that a late reply of its predecessor is
/// recognised.
package struct ScriptWorkerID: Hashable, Sendable, CustomStringConvertible {
    /// From 0; behind the ordinary ones are the worker of new functions and the quarantine worker.
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
    /// An event of a job, a function, a worker or the timer.
    package enum Event: Hashable, Sendable {
        case submitted(ScriptJob)
        /// The results of the job are not needed any more.
        case cancelled(job: UInt64)
        /// No job of the function is expected any more.
        case forgotten(function: UInt32)
        /// The process has started and speaks the protocol.
        case ready(ScriptWorkerID)
        /// The process begins to call the function of the batch.
        case executing(ScriptWorkerID, batch: UInt32)
        /// All results of the batch were received and accepted; some of its calls timed out.
        case finished(ScriptWorkerID, batch: UInt32, timeouts: Int)
        /// A reply that its request does not allow.
        case violated(ScriptWorkerID)
        /// The call with this item of the job could not be interrupted; the process ends.
        case overran(ScriptWorkerID, batch: UInt32, item: Int)
        case measured(ScriptWorkerID, residentBytes: UInt64)
        /// The process has little memory left after earlier frames, and ends before the next one.
        case retiring(ScriptWorkerID)
        /// The process has ended, or could not be started.
        case ended(ScriptWorkerID)
        /// The time that `nextDeadline` named has come.
        case timer
    }

    /// A step for the pool to carry out, in the returned order.
    package enum Action: Hashable, Sendable {
        case start(ScriptWorkerID)
        case send(ScriptPiece, batch: UInt32, to: ScriptWorkerID)
        /// Kills the process; `ended` follows.
        case stop(ScriptWorkerID, StopReason)
        /// Drops the results of the batch: its calls are repeated.
        case discard(batch: UInt32)
        /// This call has no result.
        case skip(ScriptBlame)
        /// Every call of the job has a result or was skipped.
        case complete(job: UInt64)
        /// No further call of the job is made, because its function fails again and again, or because
        /// one failure makes it useless.
        case abandon(job: UInt64)
    }

    package enum StopReason: String, Hashable, Sendable {
        case idle = "it was not used"
        case recycled = "it used much of its memory in earlier frames"
        case memory = "it used more memory than its limit"
        case violated = "it sent an invalid reply"
        case overran = "a call could not be interrupted"
        case hung = "it made no progress"
        case slow = "a function occupied it for too long, and continues apart from others"
        case recalled = "one of its functions continues apart from others"
        case reassigned = "functions of another bucket waited for a process"

        /// Whether the end is no news for an operator.
        package var isOrdinary: Bool {
            switch self {
            case .idle, .recycled, .recalled, .reassigned: true
            case .memory, .violated, .overran, .hung, .slow: false
            }
        }
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
    /// An index of the job's items.
    package let item: Int
    package let reason: Reason

    package init(job: UInt64, item: Int, reason: Reason) {
        self.job = job
        self.item = item
        self.reason = reason
    }
}

/// The bounds of the workers, each with its reason.
package struct ScriptScheduleLimits: Hashable, Sendable {
    /// Processes for proven functions; two others exist while new or suspected ones have work.
    package var workersMax: Int
    /// Frames of one worker: it always has a next one, and loses few when it dies.
    package var sentMax = 4
    package var idleNanoseconds: UInt64 = 300_000_000_000
    /// The same for the two workers of new and suspected functions, which are rarely needed.
    package var sideIdleNanoseconds: UInt64 = 10_000_000_000
    /// The longest time for one piece outside the quarantine.
    package var sliceNanoseconds: UInt64 = 2_000_000_000
    /// Resident bytes above which a process is killed.
    package var memoryBytesMax: UInt64 = 256 << 20
    /// Timeout of the start, which takes 15 to 25 ms.
    package var startNanoseconds: UInt64 = 30_000_000_000
    /// The longest time after which a process itself interrupts a call.
    ///
    /// Without progress for this time per item of a frame and the start's timeout, the quarantine
    /// worker is killed.
    package var itemNanoseconds: UInt64 = 10_000_000_000
    /// The pause after the first failed start; doubled with each further one.
    package var pauseNanoseconds: UInt64 = 100_000_000
    package var pauseNanosecondsMax: UInt64 = 30_000_000_000
    /// How long a process works for its bucket at least while functions of buckets without one wait: a
    /// start costs 15 to 25 ms and the compiled code of the functions.
    package var tenureNanoseconds: UInt64 = 500_000_000
    /// The same for a process whose bucket has no work, or if a client waits for one of the others.
    package var tenureShortNanoseconds: UInt64 = 100_000_000
    /// Deaths of a fresh process after which a call is skipped.
    package var strikesMax = 2

    /// The limits on a machine: one processor is left to the node.
    package init(processors: Int) {
        workersMax = min(4, max(1, processors - 1))
    }

    /// Resident bytes above which a process is replaced between two frames.
    package var recycleBytes: UInt64 { memoryBytesMax / 10 * 6 }

    /// The slot of the worker for new functions.
    package var newSlot: Int { workersMax }

    /// The slot of the worker for suspected functions.
    package var quarantineSlot: Int { workersMax + 1 }

    /// All workers.
    package var slots: Int { workersMax + 2 }

    /// The workers for functions of some trust.
    package func slots(of trust: ScriptReputation.Trust) -> Range<Int> {
        switch trust {
        case .new: newSlot..<newSlot + 1
        case .proven: 0..<workersMax
        case .suspected: quarantineSlot..<quarantineSlot + 1
        }
    }
}
