/// A vBucket's histories: (UUID, the seqno at which that history began), newest first.
///
/// A new history begins when the active copy may lack changes that clients or replicas have seen:
/// after an unclean stop, or a promotion. Clients and replicas compare logs to find the seqno at
/// which two histories diverge.
///
/// - Never empty; no entry has a larger seqno than a newer entry; no UUID is zero.
package struct FailoverLog: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        package let uuid: VBucketUUID
        package let seqno: Seqno
        /// The fence under which the history began; 0 if it is unknown, as in logs for clients.
        package let fence: UInt64

        package init(uuid: VBucketUUID, seqno: Seqno, fence: UInt64 = 0) {
            self.uuid = uuid
            self.seqno = seqno
            self.fence = fence
        }
    }

    /// Newest first.
    package private(set) var entries: [Entry]

    /// The log of a vBucket whose first history begins.
    package init(first uuid: VBucketUUID, fence: UInt64 = 0) {
        entries = [Entry(uuid: uuid, seqno: .zero, fence: fence)]
    }

    /// A log with these entries; nil if they violate the invariants.
    package init?(entries: [Entry]) {
        guard !entries.isEmpty, entries.allSatisfy({ $0.uuid.value != 0 }) else { return nil }
        for (newer, older) in zip(entries, entries.dropFirst()) where newer.seqno < older.seqno {
            return nil
        }
        self.entries = entries
    }

    /// The newest history.
    package var current: Entry {
        guard let newest = entries.first else { preconditionFailure("a log is never empty") }
        return newest
    }

    /// Begins a new history at `seqno`; removes histories that began after `seqno`.
    package mutating func begin(_ uuid: VBucketUUID, at seqno: Seqno, fence: UInt64 = 0) {
        precondition(uuid.value != 0, "a history needs a UUID")
        entries.removeAll { $0.seqno > seqno }
        entries.insert(Entry(uuid: uuid, seqno: seqno, fence: fence), at: 0)
        if entries.count > Limits.failoverEntriesMax {
            entries.removeLast(entries.count - Limits.failoverEntriesMax)
        }
    }

    /// The histories that began at or before `seqno`; nil if there are none.
    package func truncated(to seqno: Seqno) -> FailoverLog? {
        FailoverLog(entries: entries.filter { $0.seqno <= seqno })
    }

    /// The last seqno of the history `uuid`: where the next history began, or `high` for the
    /// newest.
    ///
    /// Nil if the log does not contain `uuid`.
    package func end(of uuid: VBucketUUID, high: Seqno) -> Seqno? {
        guard let index = entries.firstIndex(where: { $0.uuid == uuid }) else { return nil }
        return index == 0 ? high : entries[index - 1].seqno
    }
}
