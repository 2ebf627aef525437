/// The time of a simulated world: a heap of what is to happen, and the instant of the last of it.
///
/// Nobody waits here: when nothing is left to do at an instant, time jumps to the next deadline. The
/// real clock is never read, so a run depends on its seed and on nothing else.
///
/// - Equal deadlines come in the order in which they were set.
/// - Cancelling gives the event back at once; its place in the heap goes when it is due.
final class VirtualTime {
    enum Event {
        /// The lane is through with what it did before.
        case serve(SimulatedLane)
        /// Work that a lane was asked to do later.
        case timer(SimulatedLane, due: UInt64, work: @Sendable () -> Void)
        /// Something of the world itself: a packet arrives, a fault begins.
        case happen(() -> Void)
    }

    /// What cancels an event.
    struct Ticket: Sendable {
        fileprivate let place: Int
        fileprivate let number: UInt64
    }

    private struct Deadline {
        let time: UInt64
        let number: UInt64
        let place: Int

        func isBefore(_ other: Deadline) -> Bool {
            time == other.time ? number < other.number : time < other.time
        }
    }

    private struct Place {
        var number: UInt64 = 0
        var event: Event?
    }

    /// Nanoseconds since the world began; clocks of hosts differ from it.
    private(set) var now: UInt64 = 0
    // To look for overlapping accesses took a tenth of what a step of the world takes.
    @exclusivity(unchecked) private var heap = Heap()
    @exclusivity(unchecked) private var places: [Place] = []
    @exclusivity(unchecked) private var free: [Int] = []
    @exclusivity(unchecked) private var cancelled = 0
    @exclusivity(unchecked) private var numbers: UInt64 = 0

    /// When the next event is due.
    var nextDeadline: UInt64? {
        dropCancelled()
        return heap.first?.time
    }

    @discardableResult
    func add(at time: UInt64, _ event: Event) -> Ticket {
        numbers += 1
        let place = free.popLast() ?? places.count
        if place == places.count { places.append(Place()) }
        places[place] = Place(number: numbers, event: event)
        heap.insert(Deadline(time: max(time, now), number: numbers, place: place))
        return Ticket(place: place, number: numbers)
    }

    func cancel(_ ticket: Ticket) {
        guard places.indices.contains(ticket.place), places[ticket.place].number == ticket.number,
            places[ticket.place].event != nil
        else { return }
        places[ticket.place].event = nil
        cancelled += 1
    }

    /// The next event that is due by `limit`; time moves to it.
    func next(by limit: UInt64) -> Event? {
        dropCancelled()
        guard let first = heap.first, first.time <= limit else { return nil }
        heap.removeFirst()
        now = max(now, first.time)
        var event: Event?
        swap(&event, &places[first.place].event)
        release(first.place)
        return event
    }

    /// Time passes though nothing happens.
    func advance(to time: UInt64) {
        require(nextDeadline.map { $0 >= time } ?? true, "time cannot pass over what is due")
        now = max(now, time)
    }

    func clear() {
        let dropped = places
        heap = Heap()
        places = []
        free = []
        cancelled = 0
        _ = dropped
    }

    private func release(_ place: Int) {
        places[place] = Place()
        free.append(place)
    }

    private func dropCancelled() {
        while cancelled > 0, let first = heap.first, places[first.place].event == nil {
            heap.removeFirst()
            release(first.place)
            cancelled -= 1
        }
    }

    /// The soonest first.
    ///
    /// A value, so that finding a place in it is one access of its owner's.
    private struct Heap {
        private var deadlines: [Deadline] = []

        var first: Deadline? { deadlines.first }

        mutating func insert(_ new: Deadline) {
            deadlines.append(new)
            var place = deadlines.count - 1
            while place > 0 {
                let parent = (place - 1) / 2
                guard new.isBefore(deadlines[parent]) else { break }
                deadlines[place] = deadlines[parent]
                place = parent
            }
            deadlines[place] = new
        }

        mutating func removeFirst() {
            let last = deadlines.removeLast()
            guard !deadlines.isEmpty else { return }
            var place = 0
            while true {
                var child = 2 * place + 1
                guard child < deadlines.count else { break }
                if child + 1 < deadlines.count, deadlines[child + 1].isBefore(deadlines[child]) {
                    child += 1
                }
                guard deadlines[child].isBefore(last) else { break }
                deadlines[place] = deadlines[child]
                place = child
            }
            deadlines[place] = last
        }
    }
}

/// Ends the process with a sentence where something does not hold, in release builds too, where
/// `precondition` keeps its sentence to itself.
@inline(__always)
func require(_ holds: Bool, _ sentence: @autoclosure () -> String) {
    if !holds { fatalError(sentence()) }
}
