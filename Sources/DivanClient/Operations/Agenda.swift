/// Items ordered by time, as a binary heap, so that one timer serves all deadlines and waits.
///
/// Items cannot be cancelled: their handler recognises obsolete ones when they come due.
struct Agenda<Item> {
    private struct Entry {
        let time: UInt64
        /// Orders items of equal time by when they were scheduled.
        let number: UInt64
        let item: Item

        func isBefore(_ other: Entry) -> Bool {
            time == other.time ? number < other.number : time < other.time
        }
    }

    private var heap: [Entry] = []
    private var numbers: UInt64 = 0

    /// The earliest time; nil if the agenda is empty.
    var next: UInt64? { heap.first?.time }

    mutating func schedule(_ item: Item, at time: UInt64) {
        numbers += 1
        heap.append(Entry(time: time, number: numbers, item: item))
        var child = heap.count - 1
        while child > 0, heap[child].isBefore(heap[(child - 1) / 2]) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Removes and returns the first item that is due; nil if none is.
    mutating func popDue(at now: UInt64) -> Item? {
        guard let first = heap.first, first.time <= now else { return nil }
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child].isBefore(heap[least]) {
                least = child
            }
            if least == parent { return first.item }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
