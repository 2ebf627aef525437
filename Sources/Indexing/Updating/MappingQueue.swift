/// Batches of changes that are being mapped, in the order in which they were read.
///
/// Several script workers map batches at a time and answer in any order. Changes are committed in the
/// order of reading, because a later version of a document replaces an earlier one. So an answered
/// batch waits for the batches before it.
package struct MappingQueue<Batch, Mapped> {
    private enum Slot {
        case unanswered(Batch)
        case mapped(Batch, Mapped)
    }

    /// The number of the first batch in `slots`.
    private var first: UInt64 = 0
    private var slots: [Slot] = []
    private var head = 0

    package init() {}

    /// The batches that are not removed yet.
    package var count: Int { slots.count - head }

    /// Adds a batch.
    ///
    /// - Returns: Its number, by which it is answered.
    package mutating func add(_ batch: Batch) -> UInt64 {
        slots.append(.unanswered(batch))
        return first + UInt64(slots.count - 1)
    }

    /// Stores the answer of a batch; an answer to a discarded or answered batch is ignored.
    ///
    /// - Returns: Whether the answer was stored.
    package mutating func answer(_ number: UInt64, _ mapped: Mapped) -> Bool {
        guard number >= first + UInt64(head), number < first + UInt64(slots.count),
            case .unanswered(let batch) = slots[Int(number - first)]
        else { return false }
        slots[Int(number - first)] = .mapped(batch, mapped)
        return true
    }

    /// Removes the first batch if it is answered.
    package mutating func removeFirst() -> (Batch, Mapped)? {
        guard head < slots.count, case .mapped(let batch, let mapped) = slots[head] else {
            return nil
        }
        head += 1
        // Removed slots are released in blocks: a removal at the front moves all others.
        if head == slots.count || head >= 64 {
            slots.removeFirst(head)
            first += UInt64(head)
            head = 0
        }
        return (batch, mapped)
    }
}
