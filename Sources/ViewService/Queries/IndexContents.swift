internal import Indexing
internal import Persistence
internal import Vocabulary

/// The vBuckets that one commit of an index has completely, with their numbers of rows.
///
/// It is made once for each commit that queries read: reading and checking a row of the file for each
/// vBucket costs more than a short query.
struct IndexContents: Sendable {
    /// The rows of a query's vBuckets in a commit, and which vBuckets are complete.
    struct Part: Equatable, Sendable {
        /// The rows of the complete vBuckets.
        var rows: UInt64 = 0
        var complete = VBucketMask()
        /// The other vBuckets, in the order in which they were asked.
        var missing: [VBucketID] = []
    }

    let commit: IndexCommit
    /// By vBucket number; nil for a vBucket that is not complete, as those beyond the end.
    private let rows: [UInt64?]
    /// The complete vBuckets in ascending order, and what a query of just these gets.
    private let whole: (vBuckets: [VBucketID], part: Part)

    /// The contents of a commit; `stored` is in ascending order.
    init(of commit: IndexCommit, _ stored: [IndexVBucket]) {
        self.commit = commit
        var rows: [UInt64?] = []
        for vBucket in stored where vBucket.home == .main {
            let number = Int(vBucket.id.number)
            rows.append(contentsOf: repeatElement(nil, count: number - rows.count))
            rows.append(vBucket.rows)
        }
        self.rows = rows
        let complete = rows.indices.filter { rows[$0] != nil }.map { VBucketID(UInt16($0)) }
        whole = (complete, IndexContents.part(of: complete, in: rows))
    }

    /// The part of the commit for `vBuckets`, which are in ascending order.
    func part(of vBuckets: [VBucketID]) -> Part {
        // Nearly every query is of all vBuckets that the node serves.
        if vBuckets.isSame(as: whole.vBuckets) { return whole.part }
        return IndexContents.part(of: vBuckets, in: rows)
    }

    private static func part(of vBuckets: [VBucketID], in rows: [UInt64?]) -> Part {
        var part = Part()
        for vBucket in vBuckets {
            let number = Int(vBucket.number)
            if number < rows.count, let count = rows[number] {
                part.rows += count
                part.complete.insert(vBucket)
            } else {
                part.missing.append(vBucket)
            }
        }
        return part
    }
}
