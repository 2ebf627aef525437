package import Vocabulary

/// What promotions cost as they are decided: changes that whoever served had and the chosen copy does
/// not cover; and whether failovers say no more than that.
///
/// Not all of that is lost: where the chosen copy is gone before it serves, another one is.
package struct Losses {
    private struct Place: Hashable {
        let bucket: String
        let vBucket: VBucketID
    }

    private struct Served {
        let fence: UInt64
        let high: Seqno
    }

    /// Looks are 20 ms apart: so much may have come since the last one, for each failover.
    private static let unseen: UInt64 = 8

    private var served: [Place: Served] = [:]
    private var promoted: [Place: UInt64] = [:]
    package private(set) var lost: UInt64 = 0

    package init() {}

    /// Somebody serves a vBucket, and is so far.
    package mutating func serves(_ bucket: String, _ report: CopyReport) {
        let place = Place(bucket: bucket, vBucket: report.vBucket)
        if let known = served[place], known.fence >= report.fence, known.high >= report.high {
            return
        }
        served[place] = Served(fence: report.fence, high: report.high)
    }

    /// Whether nobody has said yet how this fence began.
    package func isNew(_ bucket: String, _ vBucket: VBucketID, fence: UInt64) -> Bool {
        let place = Place(bucket: bucket, vBucket: vBucket)
        guard let known = served[place], known.fence < fence else { return false }
        return (promoted[place] ?? 0) < fence
    }

    /// A copy that covers so much is to serve from this fence on.
    package mutating func promoted(
        _ bucket: String,
        _ vBucket: VBucketID,
        fence: UInt64,
        covered: Seqno
    ) {
        let place = Place(bucket: bucket, vBucket: vBucket)
        guard let known = served[place], known.fence < fence,
            (promoted[place] ?? 0) < fence
        else { return }
        promoted[place] = fence
        if known.high > covered { lost += known.high.value - covered.value }
    }

    /// What failovers said, in one sentence after the other, is lost at least.
    package static func told(
        _ texts: some Sequence<String>
    ) -> (failovers: UInt64, changes: UInt64) {
        var told: (failovers: UInt64, changes: UInt64) = (0, 0)
        for text in texts {
            let words = text.split(separator: " ")
            guard let place = words.firstIndex(of: "least"), place + 2 < words.count,
                words[place + 2] == "changes", let count = UInt64(words[place + 1])
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
