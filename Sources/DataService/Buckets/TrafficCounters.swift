internal import Bytes
package import Vocabulary

/// One row of counters for each counting lane, so that counting is a load and a store.
///
/// A row has one writer. Readers sum the rows and may lag slightly.
package final class TrafficCounters: Sendable {
    /// Whole pairs of cache lines: processors fetch lines in pairs.
    private static let rowWords = 32

    private let words: SharedWord
    private let rows: Int
    /// By `CommandKind`, then by `Latency`; with the same rows.
    let latencies: LatencyTable

    /// - Parameter rows: One for each reactor, and one for all other lanes.
    package init(rows: Int) {
        precondition(
            Statistic.counted.allSatisfy { $0.rawValue < TrafficCounters.rowWords },
            "a row has a word for each counted statistic"
        )
        words = SharedWord.allocated(count: rows * TrafficCounters.rowWords)
        self.rows = rows
        latencies = LatencyTable(
            rows: rows,
            kinds: CommandKind.countMax + Latency.allCases.count
        )
    }

    deinit { words.address.deallocate() }

    /// Counts on a reactor, the only writer of its row.
    @inline(__always)
    func count(_ counter: Statistic, row: Int, by amount: Int = 1) {
        let word = SharedWord(
            at: words.address + row * TrafficCounters.rowWords + counter.rawValue
        )
        word.store(word.load() &+ UInt64(amount))
    }

    /// The row of a reactor, its only writer; valid as long as these counters.
    func row(_ number: Int) -> TrafficRow {
        TrafficRow(
            words: words.address + number * TrafficCounters.rowWords,
            latencies: latencies.row(number)
        )
    }

    /// Counts on the lane of `context`.
    @inline(__always)
    func count(_ counter: Statistic, on context: LaneContext) {
        if context.sharesRow { return countShared(counter) }
        count(counter, row: context.row)
    }

    /// Counts on any other lane; these share the last row.
    func countShared(_ counter: Statistic, by amount: Int = 1) {
        let offset = (rows - 1) * TrafficCounters.rowWords + counter.rawValue
        SharedWord(at: words.address + offset).add(amount)
    }

    /// The number of operations that clients requested.
    var operations: UInt64 {
        total(.gets) &+ total(.sets) &+ total(.deletes) &+ total(.otherCommands)
    }

    package func total(_ counter: Statistic) -> UInt64 {
        (0..<rows).reduce(0) { sum, row in
            let offset = row * TrafficCounters.rowWords + counter.rawValue
            return sum &+ SharedWord(at: words.address + offset).load()
        }
    }
}

/// The counters and latencies of one reactor, without a reference to count.
struct TrafficRow {
    fileprivate let words: UnsafeMutablePointer<UInt64>
    let latencies: LatencyRow

    @inline(__always)
    func count(_ counter: Statistic, by amount: Int) {
        let word = SharedWord(at: words + counter.rawValue)
        word.store(word.load() &+ UInt64(amount))
    }
}
