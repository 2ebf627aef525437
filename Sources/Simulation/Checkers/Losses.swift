package import Vocabulary

/// What promotions cost as they are decided: changes that whoever served had and the chosen copy does
/// not cover; and whether failovers say no more than that.
///
/// Not all of that is lost: where the chosen copy is gone before it serves, another one is.
package struct Losses {
    private struct Row {
        var fence: UInt64 = 0
        var high = Seqno.zero
        /// The newest fence that somebody was promoted with.
        var promoted: UInt64 = 0
    }

    /// Looks are 20 ms apart: so much may have come since the last one, for each failover.
    private static let unseen: UInt64 = 8

    private var places: [String: Int] = [:]
    /// By a bucket's place and the number of a vBucket; it is asked thousands of times a second.
    private var rows: [[Row]] = []
    package private(set) var lost: UInt64 = 0

    package init() {}

    /// What stands for a bucket in the calls below, by its UUID.
    package mutating func place(of bucket: String) -> Int {
        if let place = places[bucket] { return place }
        rows.append([])
        places[bucket] = rows.count - 1
        return rows.count - 1
    }

    private func row(_ bucket: Int, _ vBucket: VBucketID) -> Row {
        let number = Int(vBucket.number)
        return number < rows[bucket].count ? rows[bucket][number] : Row()
    }

    private mutating func set(_ bucket: Int, _ vBucket: VBucketID, _ row: Row) {
        while rows[bucket].count <= Int(vBucket.number) { rows[bucket].append(Row()) }
        rows[bucket][Int(vBucket.number)] = row
    }

    /// Somebody serves a vBucket, and is so far.
    package mutating func serves(
        _ bucket: Int,
        _ vBucket: VBucketID,
        fence: UInt64,
        high: Seqno
    ) {
        var row = row(bucket, vBucket)
        if row.fence >= fence, row.high >= high { return }
        (row.fence, row.high) = (fence, high)
        set(bucket, vBucket, row)
    }

    /// Whether somebody served before this fence, and nobody has said yet how it began.
    package func isNew(_ bucket: Int, _ vBucket: VBucketID, fence: UInt64) -> Bool {
        let row = row(bucket, vBucket)
        return row.fence > 0 && row.fence < fence && row.promoted < fence
    }

    /// A copy that covers so much is to serve from this fence on.
    package mutating func promoted(
        _ bucket: Int,
        _ vBucket: VBucketID,
        fence: UInt64,
        covered: Seqno
    ) {
        guard isNew(bucket, vBucket, fence: fence) else { return }
        var row = row(bucket, vBucket)
        row.promoted = fence
        if row.high > covered { lost += row.high.value - covered.value }
        set(bucket, vBucket, row)
    }

    /// What failovers said, in one sentence after the other, is lost at least.
    package static func told(
        _ texts: some Sequence<String>
    ) -> (failovers: UInt64, changes: UInt64) {
        var told: (failovers: UInt64, changes: UInt64) = (0, 0)
        for text in texts {
            let words = text.split(separator: " ")
            guard let place = words.firstIndex(of: "least"), place + 2 < words.count,
                words[place + 2].hasPrefix("change"), let count = UInt64(words[place + 1])
            else { continue }
            told.failovers += 1
            told.changes += count
        }
        return told
    }

    /// What cannot be, in a sentence; nil where all is well.
    package func flaw(_ told: (failovers: UInt64, changes: UInt64)) -> String? {
        guard told.changes > lost + told.failovers * Self.unseen else { return nil }
        return "failovers say that at least \(told.changes) changes are lost, and \(lost) are"
    }
}
