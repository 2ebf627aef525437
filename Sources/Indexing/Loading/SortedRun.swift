internal import Bytes
internal import JSON
package import Vocabulary

/// A sorted part of a first build: rows and documents' entries, with the positions that it ends with.
package final class SortedRun {
    package private(set) var rows: RunPart
    /// A document that emits nothing has an entry with an empty value: an older run may have rows of it.
    package private(set) var documents: RunPart
    /// The positions of the vBuckets that have moved in this run.
    package private(set) var positions: [VBucketID: IndexPosition]
    /// When its first document was added: monotonic nanoseconds.
    let beganAt: UInt64

    init(
        rows: RunPart,
        documents: RunPart,
        positions: [VBucketID: IndexPosition],
        beganAt: UInt64
    ) {
        self.rows = rows
        self.documents = documents
        self.positions = positions
        self.beganAt = beganAt
    }

    var byteCount: Int { rows.byteCount + documents.byteCount }

    var isEmpty: Bool { documents.isEmpty && positions.isEmpty }

    /// Discards what the run has of a vBucket.
    func discard(_ vBucket: VBucketID) {
        guard positions.removeValue(forKey: vBucket) != nil else { return }
        rows = rows.without(vBucket)
        documents = documents.without(vBucket)
    }
}

/// Collects mapped documents in any order, until they become a run.
final class RunCollector {
    private let rows = RunSorter()
    private let documents = RunSorter()
    private var positions: [VBucketID: IndexPosition] = [:]
    private let emitted = EmittedDocument()
    private let key = ByteWriter()
    private let entry = ByteWriter()
    /// When the first document or position was added; nil before.
    private(set) var beganAt: UInt64?

    init() {}

    var isEmpty: Bool { documents.isEmpty && positions.isEmpty }

    var byteCount: Int { rows.byteCount + documents.byteCount }

    // MARK: Documents

    func begin(now: UInt64) {
        beganAt = beganAt ?? now
        emitted.removeAll()
    }

    func add(sortKey: ByteView, value: ByteView) { emitted.add(sortKey: sortKey, value: value) }

    func discardRows() { emitted.removeAll() }

    func end(_ vBucket: VBucketID, id: ByteView) {
        emitted.numberEqualKeys()
        for row in emitted.rows {
            key.removeAll()
            RowKey.append(
                sortKey: emitted.view(row.sortKey),
                id: id,
                ordinal: row.number,
                to: key
            )
            rows.append(key: key.view, vBucket: vBucket, value: emitted.view(row.value))
        }
        entry.removeAll(keepingAtMost: 1 << 20)
        emitted.appendEntry(to: entry)
        key.removeAll()
        BackEntry.appendKey(vBucket, documentID: id, to: key)
        documents.append(key: key.view, vBucket: vBucket, value: entry.view)
    }

    func move(_ vBucket: VBucketID, to position: IndexPosition, now: UInt64) {
        beganAt = beganAt ?? now
        positions[vBucket] = position
    }

    /// Removes everything, and returns it as a run.
    func removeRun() -> SortedRun {
        let run = SortedRun(
            rows: rows.removeSorted(),
            documents: documents.removeSorted(),
            positions: positions,
            beganAt: beganAt ?? 0
        )
        positions = [:]
        beganAt = nil
        return run
    }
}
