package import Vocabulary

/// The changes that promotions lose: those of the active copy that the promoted copy does not
/// cover.
///
/// Checks that failovers do not report more.
///
/// The sum is an upper bound: if the promoted copy ends before it serves, another one is promoted.
package struct Losses {
    private struct Row {
        var fence: UInt64 = 0
        var high = Seqno.zero
        /// The newest fence of a recorded promotion.
        var promoted: UInt64 = 0
    }

    /// Changes for each failover that may have happened since the last observation, 20 ms before.
    private static let unobservedMax: UInt64 = 8

    private var indexes: [String: Int] = [:]
    /// Rows by a bucket's index and the vBucket's number; read thousands of times a second.
    private var rows: [[Row]] = []
    package private(set) var lost: UInt64 = 0

    package init() {}

    /// The index of a bucket, by its UUID, for the calls below.
    package mutating func index(of bucket: String) -> Int {
        if let index = indexes[bucket] { return index }
        rows.append([])
        indexes[bucket] = rows.count - 1
        return rows.count - 1
    }

    private func row(_ bucket: Int, _ vBucket: VBucketID) -> Row {
        let number = Int(vBucket.number)
        return number < rows[bucket].count ? rows[bucket][number] : Row()
    }

    private mutating func set(_ bucket: Int, _ vBucket: VBucketID, row: Row) {
        while rows[bucket].count <= Int(vBucket.number) { rows[bucket].append(Row()) }
        rows[bucket][Int(vBucket.number)] = row
    }

    /// Records the progress of a vBucket's serving copy.
    package mutating func recordActive(
        _ bucket: Int,
        _ vBucket: VBucketID,
        fence: UInt64,
        high: Seqno
    ) {
        var row = row(bucket, vBucket)
        if row.fence >= fence, row.high >= high { return }
        (row.fence, row.high) = (fence, high)
        set(bucket, vBucket, row: row)
    }

    /// Whether a copy served before this fence and the promotion of this fence is not recorded yet.
    package func isNew(_ bucket: Int, _ vBucket: VBucketID, fence: UInt64) -> Bool {
        let row = row(bucket, vBucket)
        return row.fence > 0 && row.fence < fence && row.promoted < fence
    }

    /// Records the promotion of a copy with its fence and covered seqno.
    package mutating func recordPromotion(
        _ bucket: Int,
        _ vBucket: VBucketID,
        fence: UInt64,
        covered: Seqno
    ) {
        guard isNew(bucket, vBucket, fence: fence) else { return }
        var row = row(bucket, vBucket)
        row.promoted = fence
        if row.high > covered { lost += row.high.value - covered.value }
        set(bucket, vBucket, row: row)
    }

    /// Sums the losses that failovers reported in log lines ("at least N changes").
    package static func reported(
        in texts: some Sequence<String>
    ) -> (failovers: UInt64, changes: UInt64) {
        var reported: (failovers: UInt64, changes: UInt64) = (0, 0)
        for text in texts {
            let words = text.split(separator: " ")
            guard let place = words.firstIndex(of: "least"), place + 2 < words.count,
                words[place + 2].hasPrefix("change"), let count = UInt64(words[place + 1])
            else { continue }
            reported.failovers += 1
            reported.changes += count
        }
        return reported
    }

    /// A sentence if failovers reported more lost changes than promotions lost; nil otherwise.
    package func flaw(_ reported: (failovers: UInt64, changes: UInt64)) -> String? {
        guard reported.changes > lost + reported.failovers * Self.unobservedMax else { return nil }
        return "failovers report at least \(reported.changes) lost changes, but \(lost) were lost"
    }
}
