/// A lane's work: ready items in the order they were posted, and timers.
///
/// The state of every lane, accessed under the lane's lock. Items are removed one by one, so an
/// item can still cancel a timer that is due at the same time.
struct WorkQueue {
    typealias Work = @Sendable () -> Void

    private struct Deadline {
        let time: UInt64
        /// Timers with equal times run in the order they were added.
        let number: UInt64

        func isBefore(_ other: Deadline) -> Bool {
            time == other.time ? number < other.number : time < other.time
        }
    }

    private var ready: [Work?] = []
    private var head = 0
    /// A binary heap; a cancelled timer's entry stays until it is due or there are many such
    /// entries.
    private var heap: [Deadline] = []
    private var timed: [UInt64: Work] = [:]
    private var numbers: UInt64 = 0

    /// The number of ready items without timers.
    var readyCount: Int { ready.count - head }

    mutating func post(_ work: @escaping Work) { ready.append(work) }

    /// Adds a timer; returns its number for `cancel`.
    mutating func post(at time: UInt64, _ work: @escaping Work) -> UInt64 {
        numbers += 1
        timed[numbers] = work
        heap.append(Deadline(time: time, number: numbers))
        siftUp(heap.count - 1)
        return numbers
    }

    mutating func cancel(_ number: UInt64) {
        guard timed.removeValue(forKey: number) != nil else { return }
        guard heap.count > 64, heap.count > 2 * timed.count else { return }
        heap.removeAll { timed[$0.number] == nil }
        heap.sort { $0.isBefore($1) }
    }

    /// The time of the next timer; nil if there is none.
    mutating func nextDeadline() -> UInt64? {
        while let first = heap.first {
            if timed[first.number] != nil { return first.time }
            removeFirstDeadline()
        }
        return nil
    }

    /// Removes and returns the next item: due timers first, then ready items; nil if there is none.
    mutating func next(now: @autoclosure () -> UInt64) -> Work? {
        if let deadline = nextDeadline(), deadline <= now(), let first = heap.first {
            removeFirstDeadline()
            return timed.removeValue(forKey: first.number)
        }
        guard head < ready.count else { return nil }
        let work = ready[head]
        ready[head] = nil
        head += 1
        if head == ready.count {
            ready.removeAll(keepingCapacity: ready.capacity <= 1_024)
            head = 0
        } else if head >= 1_024 && head * 2 >= ready.count {
            ready.removeFirst(head)
            head = 0
        }
        return work
    }

    private mutating func removeFirstDeadline() {
        let last = heap.removeLast()
        guard !heap.isEmpty else { return }
        heap[0] = last
        siftDown(0)
    }

    private mutating func siftUp(_ start: Int) {
        var child = start
        while child > 0 {
            let parent = (child - 1) / 2
            guard heap[child].isBefore(heap[parent]) else { return }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    private mutating func siftDown(_ start: Int) {
        var parent = start
        while true {
            var first = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child].isBefore(heap[first]) {
                first = child
            }
            if first == parent { return }
            heap.swapAt(parent, first)
            parent = first
        }
    }
}
