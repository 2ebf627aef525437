/// Operations that wait for a durable write of their document to end, by document, oldest first.
///
/// Most durable writes that stand in an operation's way are this client's own, and it knows when
/// they end: then the next of the line goes at once. The pauses of operations go on beside it, for
/// the writes of others.
///
/// - Whoever stands in a line may be sent on meanwhile by its own pause; whoever calls the next one
///   looks at it.
struct DocumentLines {
    private struct Line {
        /// Rising.
        var numbers: [UInt64] = []

        func place(of number: UInt64) -> (place: Int, isThere: Bool) {
            var (low, high) = (0, numbers.count)
            while low < high {
                let middle = (low + high) / 2
                if numbers[middle] < number { low = middle + 1 } else { high = middle }
            }
            return (low, low < numbers.count && numbers[low] == number)
        }

        mutating func enter(_ number: UInt64) {
            let (place, isThere) = place(of: number)
            if !isThere { numbers.insert(number, at: place) }
        }

        mutating func leave(_ number: UInt64) {
            let (place, isThere) = place(of: number)
            if isThere { numbers.remove(at: place) }
        }
    }

    private var lines: [[UInt8]: Line] = [:]

    var isEmpty: Bool { lines.isEmpty }

    /// `number` waits for the document; where it does already, it keeps its place.
    mutating func enter(_ number: UInt64, _ key: [UInt8]) {
        lines[key, default: Line()].enter(number)
    }

    /// `number` waits no more; nothing where it did not.
    mutating func leave(_ number: UInt64, _ key: [UInt8]) {
        lines[key]?.leave(number)
        if lines[key]?.numbers.isEmpty == true { lines[key] = nil }
    }

    /// Takes the oldest out of the document's line.
    mutating func next(_ key: [UInt8]) -> UInt64? {
        guard let first = lines[key]?.numbers.first else { return nil }
        leave(first, key)
        return first
    }

    mutating func removeAll() { lines = [:] }
}
