/// A vBucket's histories: (UUID, the seqno at which that history began), newest first.
///
/// A history ends when a copy took over that may lack changes others have seen: after an unclean
/// stop, or a promotion. Clients and replicas compare logs to find where two histories part.
///
/// - Never empty; seqnos do not grow from newest to oldest; no UUID is zero.
package struct FailoverLog: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        package let uuid: VBucketUUID
        package let seqno: Seqno
        /// Of the map that had it begin; 0 where nobody said, as on the way to clients.
        package let fence: UInt64

        package init(uuid: VBucketUUID, seqno: Seqno, fence: UInt64 = 0) {
            self.uuid = uuid
            self.seqno = seqno
            self.fence = fence
        }
    }

    /// Newest first.
    package private(set) var entries: [Entry]

    /// The log of a vBucket that starts its first history.
    package init(first uuid: VBucketUUID, fence: UInt64 = 0) {
        entries = [Entry(uuid: uuid, seqno: .zero, fence: fence)]
    }

    /// A log read back from disk; nil where it breaks the invariants.
    package init?(entries: [Entry]) {
        guard !entries.isEmpty, entries.allSatisfy({ $0.uuid.value != 0 }) else { return nil }
        for (newer, older) in zip(entries, entries.dropFirst()) where newer.seqno < older.seqno {
            return nil
        }
        self.entries = entries
    }

    package var current: Entry {
        guard let newest = entries.first else { preconditionFailure("a log is never empty") }
        return newest
    }

    /// Begins a new history at `seqno`; histories that began beyond it never were.
    package mutating func begin(_ uuid: VBucketUUID, at seqno: Seqno, fence: UInt64 = 0) {
        precondition(uuid.value != 0, "a history needs a UUID")
        entries.removeAll { $0.seqno > seqno }
        entries.insert(Entry(uuid: uuid, seqno: seqno, fence: fence), at: 0)
        if entries.count > Limits.failoverEntriesMax {
            entries.removeLast(entries.count - Limits.failoverEntriesMax)
        }
    }

    /// The histories that a copy with changes up to `seqno` can speak of; nil where there are none.
    package func truncated(to seqno: Seqno) -> FailoverLog? {
        FailoverLog(entries: entries.filter { $0.seqno <= seqno })
    }

    /// How far the history `uuid` goes: where the next one began, or `high` for the newest; nil for
    /// one that is not known.
    package func end(of uuid: VBucketUUID, high: Seqno) -> Seqno? {
        guard let index = entries.firstIndex(where: { $0.uuid == uuid }) else { return nil }
        return index == 0 ? high : entries[index - 1].seqno
    }
}
