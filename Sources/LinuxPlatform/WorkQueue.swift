internal import Seams

/// Work that waits its turn: what is ready in the order it was posted, and what is due later.
///
/// The state of every lane, kept under the lane's lock. Pieces are taken one by one, so that one of
/// them can still cancel a timer that came due together with it.
struct WorkQueue {
    typealias Work = @Sendable () -> Void

    private struct Deadline {
        let time: UInt64
        /// Equal times go in the order they were asked for.
        let number: UInt64

        func isBefore(_ other: Deadline) -> Bool {
            time == other.time ? number < other.number : time < other.time
        }
    }

    private var ready: [Work?] = []
    private var head = 0
    /// A binary heap; an entry whose work was cancelled stays until it is due or they are many.
    private var heap: [Deadline] = []
    private var timed: [UInt64: Work] = [:]
    private var numbers: UInt64 = 0

    /// How many pieces are ready, not counting the timers.
    var readyCount: Int { ready.count - head }

    mutating func post(_ work: @escaping Work) { ready.append(work) }

    /// Adds a timer and returns the number to cancel it by.
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

    /// When the next timer is due.
    mutating func nextDeadline() -> UInt64? {
        while let first = heap.first {
            if timed[first.number] != nil { return first.time }
            removeFirstDeadline()
        }
        return nil
    }

    /// The next piece to run: timers that are due, then what is ready.
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
