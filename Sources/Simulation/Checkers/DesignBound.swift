package import Orchestration
internal import Vocabulary

/// Design documents: in no committed state do they have more bytes together than the cluster may
/// have, and each change has a new revision of its bucket.
///
/// It sums independently, since the function under test may be wrong.
package struct DesignBound {
    private var last: [String: (revision: UInt64, ids: [String])] = [:]
    private var isAbove = false

    package init() {}

    /// Checks the next committed state.
    ///
    /// - Returns: A sentence if it violates a property; the same excess is reported once.
    package mutating func check(_ state: ClusterState) -> String? {
        var sum = 0
        var seen: [String: (revision: UInt64, ids: [String])] = [:]
        var flaw: String?
        for bucket in state.buckets {
            var ids: [String] = []
            for document in bucket.designDocuments {
                sum += document.body.count + document.name.utf8.count + Limits.designOverheadBytes
                ids.append("\(document.id) \(document.revision)")
            }
            let (uuid, revision) = (bucket.settings.uuid, bucket.designRevision)
            seen[uuid] = (revision, ids)
            guard let before = last[uuid], before.ids != ids, before.revision >= revision else {
                continue
            }
            let name = bucket.settings.name
            flaw =
                "index \(state.index) has other design documents of \(name), but revision "
                + "\(revision) after \(before.revision)"
        }
        last = seen
        let was = isAbove
        isAbove = sum > Limits.designDocumentsBytesMax
        guard isAbove, !was else { return flaw }
        return "index \(state.index) has design documents of \(sum) bytes, and at most "
            + "\(Limits.designDocumentsBytesMax) are possible"
    }
}
