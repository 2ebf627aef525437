internal import Bytes

/// The counters of a bucket's traffic.
package enum BucketCounter: Int, CaseIterable, Sendable {
    case gets
    case getHits
    case getMisses
    case sets
    case deletes
    case otherCommands
    case temporaryFailures
    case backgroundFetches
    case ejections
    case expirations
    case casMismatches
    case commits
    case commitFailures
    case persistedChanges
    /// Of connections that have the bucket selected.
    case bytesRead
    case bytesWritten
}

/// One row of counters for each counting lane, so that counting is a load and a store.
///
/// A row has one writer. Readers sum the rows and may lag slightly.
package final class BucketCounters: Sendable {
    /// Two cache lines a row: processors fetch lines in pairs.
    private static let rowWords = 16

    private let words: SharedWord
    private let rows: Int

    /// - Parameter rows: One for each reactor, and one for all other lanes.
    package init(rows: Int) {
        precondition(BucketCounter.allCases.count <= BucketCounters.rowWords, "a row has 16 words")
        let count = rows * BucketCounters.rowWords
        let memory = UnsafeMutablePointer<UInt64>.allocate(capacity: count)
        memory.initialize(repeating: 0, count: count)
        words = SharedWord(at: memory)
        self.rows = rows
    }

    deinit { words.address.deallocate() }

    /// Counts on a reactor, the only writer of its row.
    @inline(__always)
    func count(_ counter: BucketCounter, row: Int, by amount: Int = 1) {
        let word = SharedWord(
            at: words.address + row * BucketCounters.rowWords + counter.rawValue
        )
        word.store(word.load() &+ UInt64(amount))
    }

    /// Counts on the lane of `context`.
    @inline(__always)
    func count(_ counter: BucketCounter, on context: LaneContext) {
        if context.sharesRow { return countShared(counter) }
        count(counter, row: context.row)
    }

    /// Counts on any other lane; these share the last row.
    func countShared(_ counter: BucketCounter, by amount: Int = 1) {
        let offset = (rows - 1) * BucketCounters.rowWords + counter.rawValue
        SharedWord(at: words.address + offset).add(amount)
    }

    /// The number of operations that clients requested.
    var operations: UInt64 {
        total(.gets) &+ total(.sets) &+ total(.deletes) &+ total(.otherCommands)
    }

    package func total(_ counter: BucketCounter) -> UInt64 {
        (0..<rows).reduce(0) { sum, row in
            let offset = row * BucketCounters.rowWords + counter.rawValue
            return sum &+ SharedWord(at: words.address + offset).load()
        }
    }
}
