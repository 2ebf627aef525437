internal import Bytes

/// Merges the rows of a query's responders, which are sorted, into one sorted sequence.
///
/// A heap has the streams that have a row, the first row at its top. Rows are ordered by key number
/// (the order of `keys`), then by the bytes of their keys, backwards in a descending query. `skip`
/// and `limit` are applied here and nowhere else.
///
/// - A row leaves only when every stream has one or has ended, so no later row can precede it.
/// - Of groups, all partial values of one key leave together, in the order of the streams.
/// - A stream has at most `creditMax` batches here; a consumed batch is a new credit.
/// - A stream whose rows are out of order fails. It is never mended: rows could be missing.
package struct RowMerge: Sendable {
    /// Batches that a responder may send ahead: one is merged while the next one arrives.
    package static let creditMax = 2

    private let plan: MergePlan
    private var streams: [RowStream]
    /// The streams with a row, as a binary heap.
    private var heap: [Int] = []
    /// How many streams have neither a row nor ended.
    private var hungryCount: Int
    private var skip: Int
    private var limit: Int
    private var isOver = false
    private var credits: [Int] = []

    /// The next row or group of the merged sequence, or why there is none.
    package enum Step: Sendable {
        case row(MergedRow)
        /// The partial values of one group, at least one.
        case group([MergedRow])
        /// Rows of these streams are needed first.
        case needsMore([Int])
        case done
    }

    /// The effect of what a stream sent.
    package enum FeedOutcome: Equatable, Sendable {
        case accepted
        /// The stream sent more than its credit, or something after its end.
        case unexpected
    }

    package init(streams count: Int, plan: MergePlan) {
        self.plan = plan
        streams = (0..<count).map { RowStream(number: $0) }
        hungryCount = count
        skip = plan.skip
        limit = plan.limit ?? .max
    }

    /// The streams that failed because of their rows' order, since the last call.
    package private(set) var disordered: [Int] = []

    // MARK: Input

    /// Appends a batch to a stream.
    package mutating func feed(_ stream: Int, _ batch: RowBatch) -> FeedOutcome {
        guard !streams[stream].isEnded, streams[stream].batchCount < RowMerge.creditMax else {
            return .unexpected
        }
        if batch.isEmpty {
            credits.append(stream)
            return .accepted
        }
        let wasHungry = !streams[stream].hasRow
        streams[stream].append(batch)
        if wasHungry {
            hungryCount -= 1
            if isInOrder(stream) { insert(stream) } else { discard(stream) }
        }
        return .accepted
    }

    /// Ends a stream after its last row.
    package mutating func finish(_ stream: Int) {
        guard !streams[stream].isEnded else { return }
        streams[stream].isEnded = true
        if !streams[stream].hasRow { hungryCount -= 1 }
    }

    /// Ends a stream whose rows are incomplete.
    ///
    /// The rows that it sent still count, unless the query stops at failures.
    package mutating func fail(_ stream: Int) {
        finish(stream)
        if plan.failurePolicy == .stopRows { isOver = true }
    }

    /// Ends a stream because of a row that left: its other rows are dropped.
    mutating func reject(_ stream: Int) {
        if streams[stream].isHungry { hungryCount -= 1 }
        streams[stream].removeRows()
        streams[stream].isEnded = true
        let others = heap.filter { $0 != stream }
        heap = []
        for other in others { insert(other) }
        if plan.failurePolicy == .stopRows { isOver = true }
    }

    /// Ends the rows at once.
    package mutating func stop() { isOver = true }

    /// The streams of the batches that were consumed since the last call; one more batch can be
    /// requested for each.
    package mutating func removeCredits() -> [Int] {
        exchange(&credits, with: [])
    }

    package mutating func removeDisordered() -> [Int] {
        exchange(&disordered, with: [])
    }

    // MARK: Output

    /// The next row or group; or why there is none.
    package mutating func next() -> Step {
        while !isOver, limit > 0 {
            if hungryCount > 0 {
                return .needsMore(streams.indices.filter { streams[$0].isHungry })
            }
            guard let first = heap.first else { break }
            let row = streams[first].row
            advanceTop()
            let others = plan.isGrouped ? removeOthers(ofKey: row) : []
            if isOver { break }
            if skip > 0 {
                skip -= 1
                continue
            }
            limit -= 1
            return plan.isGrouped ? .group([row] + others) : .row(row)
        }
        isOver = true
        return .done
    }

    /// Removes the partial values that other streams have of a group.
    private mutating func removeOthers(ofKey row: MergedRow) -> [MergedRow] {
        var rows: [MergedRow] = []
        while !isOver, let other = heap.first, row.hasKey(of: streams[other].row) {
            rows.append(streams[other].row)
            advanceTop()
        }
        return rows
    }

    // MARK: Heap

    /// Moves the stream at the top to its next row.
    private mutating func advanceTop() {
        let stream = heap[0]
        if streams[stream].advance() { credits.append(stream) }
        guard streams[stream].hasRow else {
            removeTop()
            if !streams[stream].isEnded { hungryCount += 1 }
            return
        }
        if isInOrder(stream) {
            siftDown(from: 0)
        } else {
            removeTop()
            discard(stream)
        }
    }

    /// Ends a stream, which is not in the heap, because of its rows' order.
    private mutating func discard(_ stream: Int) {
        streams[stream].removeRows()
        streams[stream].isEnded = true
        disordered.append(stream)
        if plan.failurePolicy == .stopRows { isOver = true }
    }

    /// Whether a stream's row is behind its row before.
    private func isInOrder(_ stream: Int) -> Bool {
        guard let last = streams[stream].last else { return true }
        return last.precedes(streams[stream].row, isDescending: plan.isDescending)
    }

    private func precedes(_ one: Int, _ other: Int) -> Bool {
        let (row, otherRow) = (streams[one].row, streams[other].row)
        if row.precedes(otherRow, isDescending: plan.isDescending) { return true }
        return one < other && !otherRow.precedes(row, isDescending: plan.isDescending)
    }

    private mutating func insert(_ stream: Int) {
        heap.append(stream)
        var place = heap.count - 1
        while place > 0, precedes(heap[place], heap[(place - 1) / 2]) {
            heap.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    private mutating func removeTop() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        siftDown(from: 0)
    }

    private mutating func siftDown(from top: Int) {
        var place = top
        while 2 * place + 1 < heap.count {
            var child = 2 * place + 1
            if child + 1 < heap.count, precedes(heap[child + 1], heap[child]) { child += 1 }
            guard precedes(heap[child], heap[place]) else { return }
            heap.swapAt(place, child)
            place = child
        }
    }
}

/// A row of a responder: its place in a batch, which it keeps in memory.
package struct MergedRow: Sendable {
    /// The stream that it came from.
    let stream: Int
    fileprivate let batch: RowBatch
    fileprivate let index: Int

    /// Calls `body` with the row, whose views are valid during the call only.
    package func withRow<Result>(_ body: (RowBatch.Row) -> Result) -> Result {
        batch.withRow(index, body)
    }

    func hasKey(of other: MergedRow) -> Bool {
        withRow { row in
            other.withRow { $0.keyNumber == row.keyNumber && $0.key.equals(row.key) }
        }
    }

    /// Whether this row is before the other one in a query's order.
    func precedes(_ other: MergedRow, isDescending: Bool) -> Bool {
        withRow { row in
            other.withRow { otherRow in
                if row.keyNumber != otherRow.keyNumber {
                    return row.keyNumber < otherRow.keyNumber
                }
                return isDescending
                    ? otherRow.key.precedes(row.key) : row.key.precedes(otherRow.key)
            }
        }
    }
}

/// The batches of one responder that are not consumed yet.
struct RowStream: Sendable {
    fileprivate let number: Int
    fileprivate var batches: [RowBatch] = []
    fileprivate var index = 0
    /// The row that was consumed last; keeps its batch in memory.
    private(set) var last: MergedRow?
    var isEnded = false

    var batchCount: Int { batches.count }
    var hasRow: Bool { !batches.isEmpty }
    var isHungry: Bool { batches.isEmpty && !isEnded }

    /// - Precondition: `hasRow`.
    var row: MergedRow { MergedRow(stream: number, batch: batches[0], index: index) }

    mutating func append(_ batch: RowBatch) { batches.append(batch) }

    mutating func removeRows() { batches = [] }

    /// Goes to the next row; returns whether a batch is consumed by that.
    mutating func advance() -> Bool {
        last = row
        index += 1
        guard index == batches[0].count else { return false }
        batches.removeFirst()
        index = 0
        return true
    }
}
