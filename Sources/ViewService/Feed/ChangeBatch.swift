package import Bytes
package import Indexing
package import Vocabulary

/// Changes of some vBuckets that one index has read and maps together.
///
/// - Changes are in the order in which they were read: of several to one document, the last counts.
/// - `positions` has every vBucket that the batch moves, also those without a change in it.
package final class ChangeBatch {
    /// One changed document.
    package struct Change {
        package let vBucket: VBucketID
        package let seqno: Seqno
        /// The place of its id in `ids`.
        let id: Range<Int>
        /// Its number in the mapping request; nil if it emits nothing: a tombstone that
        /// is not mapped, or a document that views omit.
        package let item: UInt32?
    }

    package private(set) var changes: [Change] = []
    package private(set) var positions: [VBucketID: IndexPosition] = [:]
    private let ids = ByteWriter(capacity: 4 << 10)

    package init() {}

    package var isEmpty: Bool { changes.isEmpty && positions.isEmpty }

    /// The id of a change's document; valid as long as the batch.
    package func id(of change: Change) -> ByteView {
        ids.view.slice(change.id.lowerBound, change.id.count)
    }

    /// Adds a change.
    func add(_ vBucket: VBucketID, _ seqno: Seqno, id: ByteView, item: UInt32?) {
        let start = ids.count
        ids.append(id)
        changes.append(Change(vBucket: vBucket, seqno: seqno, id: start..<ids.count, item: item))
    }

    func move(_ vBucket: VBucketID, to position: IndexPosition) { positions[vBucket] = position }
}

/// How far an index has read the feed of one vBucket, from the records of the feed.
package struct ReadPosition: Hashable, Sendable {
    package private(set) var position: IndexPosition

    package init(_ position: IndexPosition) {
        self.position = position
    }

    /// Follows a snapshot, a change or an advance; an advance is never sent inside a snapshot.
    package mutating func follow(_ record: ChangeRecord) {
        switch record {
        case .snapshot(let start, let end):
            // A snapshot that could not be sent to its end continues in the next one: there is no
            // whole state before that one's end.
            if position.seqno >= position.snapshotEnd { position.snapshotStart = start }
            position.snapshotEnd = end
        case .change(let meta, _, _): position.seqno = meta.seqno
        case .advanced(let seqno):
            position.seqno = seqno
            (position.snapshotStart, position.snapshotEnd) = (seqno, seqno)
        case .purged, .ended: break
        }
    }
}
