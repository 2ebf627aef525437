/// The time of a simulated world: a heap of events, and the time of the last one that occurred.
///
/// No real time passes: when nothing is left to do at an instant, time jumps to the next deadline.
/// The real clock is never read, so a run depends only on its seed.
///
/// - Events with equal deadlines occur in the order in which they were added.
/// - Cancelling releases the event at once; its heap entry is removed later.
final class VirtualTime {
    enum Event {
        /// The lane has finished its previous work item.
        case serve(SimulatedLane)
        /// Delayed work of a lane.
        case timer(SimulatedLane, due: UInt64, work: @Sendable () -> Void)
        /// An event of the world: a packet arrives, a fault begins.
        case happen(() -> Void)
    }

    /// Identifies an event, to cancel it.
    struct Ticket: Sendable {
        fileprivate let slot: Int
        fileprivate let number: UInt64
    }

    private struct Deadline {
        let time: UInt64
        let number: UInt64
        let slot: Int

        func isBefore(_ other: Deadline) -> Bool {
            time == other.time ? number < other.number : time < other.time
        }
    }

    private struct Slot {
        var number: UInt64 = 0
        var event: Event?
    }

    /// Nanoseconds since the world began; the clocks of hosts differ from it.
    private(set) var now: UInt64 = 0
    // Exclusivity checks took a tenth of the time of a step.
    @exclusivity(unchecked) private var heap = Heap()
    @exclusivity(unchecked) private var slots: [Slot] = []
    @exclusivity(unchecked) private var free: [Int] = []
    @exclusivity(unchecked) private var cancelled = 0
    @exclusivity(unchecked) private var numbers: UInt64 = 0

    /// The time of the next event; nil if there is none.
    var nextDeadline: UInt64? {
        dropCancelled()
        return heap.first?.time
    }

    @discardableResult
    func add(at time: UInt64, _ event: Event) -> Ticket {
        numbers += 1
        let slot = free.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) }
        slots[slot] = Slot(number: numbers, event: event)
        heap.insert(Deadline(time: max(time, now), number: numbers, slot: slot))
        return Ticket(slot: slot, number: numbers)
    }

    func cancel(_ ticket: Ticket) {
        guard slots.indices.contains(ticket.slot), slots[ticket.slot].number == ticket.number,
            slots[ticket.slot].event != nil
        else { return }
        slots[ticket.slot].event = nil
        cancelled += 1
    }

    /// Removes and returns the next event due by `limit`, and advances time to it; nil if there is
    /// none.
    func next(by limit: UInt64) -> Event? {
        dropCancelled()
        guard let first = heap.first, first.time <= limit else { return nil }
        heap.removeFirst()
        now = max(now, first.time)
        var event: Event?
        swap(&event, &slots[first.slot].event)
        release(first.slot)
        return event
    }

    /// Advances time without an event.
    func advance(to time: UInt64) {
        require(nextDeadline.map { $0 >= time } ?? true, "time does not skip an event")
        now = max(now, time)
    }

    func clear() {
        let dropped = slots
        heap = Heap()
        slots = []
        free = []
        cancelled = 0
        _ = dropped
    }

    private func release(_ slot: Int) {
        slots[slot] = Slot()
        free.append(slot)
    }

    private func dropCancelled() {
        while cancelled > 0, let first = heap.first, slots[first.slot].event == nil {
            heap.removeFirst()
            release(first.slot)
            cancelled -= 1
        }
    }

    /// A min-heap of deadlines.
    ///
    /// A value type, so that each operation is one access to its owner's property.
    private struct Heap {
        private var deadlines: [Deadline] = []

        var first: Deadline? { deadlines.first }

        mutating func insert(_ new: Deadline) {
            deadlines.append(new)
            var slot = deadlines.count - 1
            while slot > 0 {
                let parent = (slot - 1) / 2
                guard new.isBefore(deadlines[parent]) else { break }
                deadlines[slot] = deadlines[parent]
                slot = parent
            }
            deadlines[slot] = new
        }

        mutating func removeFirst() {
            let last = deadlines.removeLast()
            guard !deadlines.isEmpty else { return }
            var slot = 0
            while true {
                var child = 2 * slot + 1
                guard child < deadlines.count else { break }
                if child + 1 < deadlines.count, deadlines[child + 1].isBefore(deadlines[child]) {
                    child += 1
                }
                guard deadlines[child].isBefore(last) else { break }
                deadlines[slot] = deadlines[child]
                slot = child
            }
            deadlines[slot] = last
        }
    }
}

/// Ends the process with `sentence` unless `holds`.
///
/// In release builds `precondition` prints no sentence.
@inline(__always)
func require(_ holds: Bool, _ sentence: @autoclosure () -> String) {
    if !holds { fatalError(sentence()) }
}
