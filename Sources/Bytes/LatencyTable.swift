/// Histograms of latencies by kind, with a row for each lane that records, so that recording is a few
/// loads and stores.
///
/// A row has one writer, but for the last one, which all other lanes share. Readers sum the rows and may
/// lag slightly. A histogram is allocated when its kind is recorded first: 3.4 KiB.
package final class LatencyTable: Sendable {
    /// The addresses of the histograms by row and kind; 0 without one.
    ///
    /// A histogram is the sum of its latencies, followed by the count of each bucket.
    private let cells: SharedWord
    private let rows: Int
    private let kinds: Int
    /// Serializes allocations in the shared row.
    private let lock = Guarded(())

    /// A table for `kinds` kinds; the last of the `rows` is shared.
    package init(rows: Int, kinds: Int) {
        precondition(rows > 0, "the last row is shared")
        cells = SharedWord.allocated(count: rows * kinds)
        self.rows = rows
        self.kinds = kinds
    }

    deinit {
        for place in 0..<rows * kinds { histogram(at: cell(place).load())?.deallocate() }
        cells.address.deallocate()
    }

    private func cell(_ place: Int) -> SharedWord { SharedWord(at: cells.address + place) }

    private func histogram(at address: UInt64) -> UnsafeMutablePointer<UInt64>? {
        UnsafeMutablePointer(bitPattern: UInt(truncatingIfNeeded: address))
    }

    /// The row of a lane, which is its only writer; valid as long as the table.
    package func row(_ number: Int) -> LatencyRow {
        LatencyRow(cells: cells.address + number * kinds)
    }

    /// Records a latency on any other lane.
    package func recordShared(_ kind: Int, nanoseconds: UInt64) {
        let cell = cell((rows - 1) * kinds + kind)
        let words =
            histogram(at: cell.loadAcquire())
            ?? lock.withLock { _ in
                histogram(at: cell.load()) ?? LatencyRow.allocate(in: cell)
            }
        SharedWord(at: words + 1 + LatencyScale.index(of: nanoseconds)).add(1)
        SharedWord(at: words).add(Int(truncatingIfNeeded: nanoseconds))
    }

    /// The latencies of a kind on all lanes; nil if there are none.
    package func histogram(_ kind: Int) -> LatencyHistogram? {
        var sum: LatencyHistogram?
        for row in 0..<rows {
            guard let words = histogram(at: cell(row * kinds + kind).loadAcquire()) else {
                continue
            }
            var found = sum ?? LatencyHistogram()
            found.add(sumNanoseconds: SharedWord(at: words).load())
            for index in 0..<LatencyScale.count {
                found.add(SharedWord(at: words + 1 + index).load(), toBucket: index)
            }
            sum = found
        }
        return sum.flatMap { $0.isEmpty ? nil : $0 }
    }
}

/// The histograms of one lane, by kind.
@usableFromInline
package struct LatencyRow {
    @usableFromInline let cells: UnsafeMutablePointer<UInt64>

    /// Records `times` equal latencies; the row's only writer calls it.
    @inlinable @inline(__always)
    package func record(_ kind: Int, nanoseconds: UInt64, times: UInt64 = 1) {
        let cell = SharedWord(at: cells + kind)
        let known = UnsafeMutablePointer<UInt64>(
            bitPattern: UInt(truncatingIfNeeded: cell.load())
        )
        let words = known ?? LatencyRow.allocate(in: cell)
        let count = SharedWord(at: words + (1 &+ LatencyScale.index(of: nanoseconds)))
        count.store(count.load() &+ times)
        let sum = SharedWord(at: words)
        sum.store(sum.load() &+ nanoseconds &* times)
    }

    @usableFromInline
    static func allocate(in cell: SharedWord) -> UnsafeMutablePointer<UInt64> {
        let words = SharedWord.allocated(count: 1 + LatencyScale.count).address
        cell.storeRelease(UInt64(UInt(bitPattern: words)))
        return words
    }
}
