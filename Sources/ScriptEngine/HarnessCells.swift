internal import Wire

/// Numbers that the harness and Swift both see, without a call: a typed array over our memory.
///
/// One block serves all contexts of a worker, because only one function runs at a time. The harness
/// hides the array from authors.
final class HarnessCells {
    /// The index of the running item in its batch, or `noItem`.
    private static let item = 0
    /// The index after the item that ran last, in the array that `run` got.
    private static let next = 1
    /// Why `run` returned early: the raw value of a `ScriptProblem.Reason`, or 0.
    private static let reason = 2
    /// The `line` property of the exception.
    private static let line = 3
    /// Log lines that wait.
    private static let notes = 4
    /// Log lines that were dropped.
    private static let dropped = 5
    /// Whether `run` returned because the context has to be replaced before the next item.
    private static let dirty = 6
    /// From here on the stamps of the batch's items, high and low half each.
    private static let stamps = 8

    static let count = stamps + 2 * ScriptLimits.itemsMax

    /// The value of `item` while a definition, or a job that items left behind, runs.
    static let noItem = UInt32.max

    let words: UnsafeMutablePointer<UInt32>

    init() {
        words = .allocate(capacity: HarnessCells.count)
        words.initialize(repeating: 0, count: HarnessCells.count)
    }

    deinit { words.deallocate() }

    var item: UInt32 {
        get { words[HarnessCells.item] }
        set { words[HarnessCells.item] = newValue }
    }

    var next: Int {
        get { Int(words[HarnessCells.next]) }
        set { words[HarnessCells.next] = UInt32(newValue) }
    }

    var reason: ScriptProblem.Reason? {
        UInt8(exactly: words[HarnessCells.reason]).flatMap(ScriptProblem.Reason.init)
    }

    var line: UInt32 { words[HarnessCells.line] }

    var notes: UInt32 { words[HarnessCells.notes] }

    /// Returns and resets the number of dropped log lines.
    func drainDropped() -> UInt32 {
        defer { words[HarnessCells.dropped] = 0 }
        return words[HarnessCells.dropped]
    }

    var isDirty: Bool { words[HarnessCells.dirty] != 0 }

    func clearReason() { (words[HarnessCells.reason], words[HarnessCells.dirty]) = (0, 0) }

    func setStamps(of batch: ScriptBatch) {
        for index in 0..<batch.count {
            let stamp = batch.stamp(index)
            words[HarnessCells.stamps + 2 * index] = UInt32(stamp >> 32)
            words[HarnessCells.stamps + 2 * index + 1] = UInt32(truncatingIfNeeded: stamp)
        }
    }
}
