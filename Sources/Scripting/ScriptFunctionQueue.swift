/// The pieces of one function that wait for a worker, and its share of the workers' time.
struct ScriptFunctionQueue: Hashable, Sendable {
    struct Waiting: Hashable, Sendable {
        var piece: ScriptPiece
        /// Fresh processes that it has ended.
        var strikes = 0
        /// Whether it ended a process that had done other work before, so that a fresh one is needed.
        var needsFreshWorker = false
    }

    /// After an idle time, a function begins at most this far behind those that waited meanwhile.
    static let debtMaxNanoseconds: UInt64 = 200_000_000

    /// The bucket whose documents the function reads.
    let bucket: String
    var reputation = ScriptReputation()
    /// The next one first.
    var waiting: [Waiting] = []
    /// Jobs without all results.
    var jobs = 0
    /// Whether clients wait for the function's jobs.
    var isInteractive = false
    /// Whether no later job is expected.
    var isForgotten = false
    /// The time of workers that it has used, comparable among functions of the same trust.
    var usedNanoseconds: UInt64 = 0

    init(bucket: String) { self.bucket = bucket }

    /// Removes the next piece to send, of at most `reputation.pieceItems` items; a piece must wait.
    mutating func removeNext() -> Waiting {
        var next = waiting[0]
        next.piece = waiting[0].piece.removePrefix(reputation.pieceItems)
        if waiting[0].piece.items.isEmpty {
            waiting.removeFirst()
        } else {
            waiting[0].strikes = 0
            waiting[0].needsFreshWorker = false
        }
        return next
    }

    /// The estimated time of a piece with so many items, in nanoseconds.
    func estimate(items: Int) -> UInt64 { UInt64(items) * reputation.itemNanoseconds }

    /// Replaces an estimate that was counted by the time that the piece used.
    mutating func correct(_ estimate: UInt64, to nanoseconds: UInt64) {
        usedNanoseconds =
            (usedNanoseconds > estimate ? usedNanoseconds - estimate : 0) + nanoseconds
    }

    /// Limits what the function is ahead of, or behind, the least served one of its trust.
    mutating func join(at floor: UInt64?) {
        guard let floor else { return }
        let most = floor + ScriptFunctionQueue.debtMaxNanoseconds
        usedNanoseconds = min(max(usedNanoseconds, floor), most)
    }
}
