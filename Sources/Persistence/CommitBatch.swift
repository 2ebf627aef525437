package import Bytes
package import Vocabulary

/// The changes of several vBuckets of one lane, to be committed in one transaction.
///
/// The flusher fills the batch under each vBucket's lock, so adding a document only copies bytes
/// into preallocated memory. Packing and compression run later, outside the lock.
///
/// - A vBucket's documents are added in ascending seqno, only the newest version of each key. All
///   are above the committed seqno and none above the `highSeqno` of the vBucket's record.
/// - The record's `highSeqno` is a closed boundary (`Checkpoint`): no change below it is missing
///   from the batch or the file.
/// - Used by one thread at a time; reusable after `reset()`.
package final class CommitBatch {
    struct Section {
        var record: VBucketRecord
        var start: Int
        var end: Int
        var bytes: Int
    }

    let documents = DocumentBuffer()
    private(set) var sections: [Section] = []
    /// (vBucket, seqno) pairs of versions that are dead once this batch is committed.
    private(set) var dead: [(vBucket: UInt16, seqno: UInt64)] = []
    /// Prepares that are outstanding at their vBucket's record.
    ///
    /// `levels` has the durability level of each, in the same order.
    let prepares = DocumentBuffer()
    private(set) var levels: [DurabilityLevel] = []
    /// (vBucket, seqno) pairs of prepares that may be on disk and are no longer outstanding.
    private(set) var completed: [(vBucket: UInt16, seqno: UInt64)] = []

    package init() {}

    /// Starts the section of a vBucket: all appends until the next `begin` belong to it.
    ///
    /// A section without documents is valid: it commits a change of the record only.
    package func begin(_ record: VBucketRecord) {
        precondition(
            record.highSeqno.value <= BlockBounds.seqnoMax,
            "a seqno has 48 bits"
        )
        let start = documents.count
        sections.append(Section(record: record, start: start, end: start, bytes: 0))
    }

    /// Adds a document or tombstone of the current vBucket; copies key and value.
    package func append(_ meta: DocumentMeta, key: ByteView, value: ByteView) {
        let last = sections.count - 1
        precondition(last >= 0, "a document is appended after its vBucket's record")
        precondition(
            meta.seqno <= sections[last].record.highSeqno,
            "a document's seqno is at most the highSeqno of its vBucket's record"
        )
        documents.append(meta, in: sections[last].record.id.number, key: key, value: value)
        sections[last].end += 1
        sections[last].bytes += value.count
    }

    /// Adds an outstanding prepare of the current vBucket; prepares are added in ascending seqno.
    package func append(
        prepare meta: DocumentMeta,
        level: DurabilityLevel,
        key: ByteView,
        value: ByteView
    ) {
        guard let record = sections.last?.record else {
            preconditionFailure("a prepare is appended after its vBucket's record")
        }
        precondition(
            meta.seqno <= record.highSeqno,
            "a prepare's seqno is at most the highSeqno of its vBucket's record"
        )
        prepares.append(meta, in: record.id.number, key: key, value: value)
        levels.append(level)
    }

    /// Records prepares of the current vBucket that were committed or aborted; unknown seqnos are
    /// ignored by the commit.
    package func markCompleted(_ seqnos: some Sequence<Seqno>) {
        guard let section = sections.last else {
            preconditionFailure("completed prepares are added after their vBucket's record")
        }
        completed += seqnos.map { (section.record.id.number, $0.value) }
    }

    /// Records that this batch replaces a persisted version of the current vBucket.
    package func markSuperseded(_ seqno: Seqno) {
        guard let section = sections.last else {
            preconditionFailure("superseded versions are added after their vBucket's record")
        }
        dead.append((section.record.id.number, seqno.value))
    }

    /// Records that this batch replaces several persisted versions of the current vBucket.
    package func markSuperseded(_ seqnos: some Sequence<Seqno>) {
        for seqno in seqnos { markSuperseded(seqno) }
    }

    /// The number of documents and prepares added so far.
    package var documentCount: Int { documents.count + prepares.count }

    /// The number of sections added so far, one per `begin`.
    package var vBucketCount: Int { sections.count }

    package var isEmpty: Bool { sections.isEmpty }

    /// Bytes of memory in use by documents and prepares.
    package var byteCount: Int { documents.byteCount + prepares.byteCount }

    /// Removes the content and frees the memory beyond what a small commit needs.
    package func trim() {
        documents.removeAllAndTrim()
        prepares.removeAllAndTrim()
        sections = []
        dead = []
        levels = []
        completed = []
    }

    /// Removes the content and keeps the memory for a batch of the same size.
    package func reset() {
        documents.removeAll()
        prepares.removeAll()
        sections.removeAll(keepingCapacity: true)
        dead.removeAll(keepingCapacity: true)
        levels.removeAll(keepingCapacity: true)
        completed.removeAll(keepingCapacity: true)
    }
}
