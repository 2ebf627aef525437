/// Operations that wait for a durable write of their document to end, by document, oldest first.
///
/// Most of the durable writes that block an operation are this client's own. The client knows when
/// they end, and then retries the next operation of the line at once. The operations also back off
/// as usual, for durable writes of other clients.
///
/// - An operation in a line may have been dispatched already at the end of its back-off. The caller
///   of `next` has to check that.
struct DocumentLines {
    private struct Line {
        /// Ascending.
        var numbers: [UInt64] = []

        func index(of number: UInt64) -> (index: Int, isThere: Bool) {
            var (low, high) = (0, numbers.count)
            while low < high {
                let middle = (low + high) / 2
                if numbers[middle] < number { low = middle + 1 } else { high = middle }
            }
            return (low, low < numbers.count && numbers[low] == number)
        }

        mutating func enter(_ number: UInt64) {
            let (index, isThere) = index(of: number)
            if !isThere { numbers.insert(number, at: index) }
        }

        mutating func leave(_ number: UInt64) {
            let (index, isThere) = index(of: number)
            if isThere { numbers.remove(at: index) }
        }
    }

    private var lines: [[UInt8]: Line] = [:]

    var isEmpty: Bool { lines.isEmpty }

    /// Adds an operation to the document's line, ordered by its number; no effect if it is there.
    mutating func enter(_ number: UInt64, _ key: [UInt8]) {
        lines[key, default: Line()].enter(number)
    }

    /// Removes an operation from the document's line; no effect if it is not there.
    mutating func leave(_ number: UInt64, _ key: [UInt8]) {
        lines[key]?.leave(number)
        if lines[key]?.numbers.isEmpty == true { lines[key] = nil }
    }

    /// Removes and returns the oldest operation of the document's line; nil if there is none.
    mutating func next(_ key: [UInt8]) -> UInt64? {
        guard let first = lines[key]?.numbers.first else { return nil }
        leave(first, key)
        return first
    }

    mutating func removeAll() { lines = [:] }
}
