package import Bytes
package import Vocabulary

/// The changes of several vBuckets of one lane, to be committed together.
///
/// The flusher fills it under each vBucket's lock, so adding a document copies bytes into memory
/// that is already there and does nothing else; packing and compressing come later, outside.
///
/// - A vBucket's documents come in ascending seqno, newest version per key only, all above what is
///   committed and none above the `highSeqno` of its record.
/// - The record's `highSeqno` is a closed boundary (storage.md 2): what is persisted through it
///   lacks nothing below it.
/// - Used by one thread at a time, and again after `reset()`.
package final class CommitBatch {
    struct Section {
        var record: VBucketRecord
        var start: Int
        var end: Int
        var bytes: Int
    }

    let documents = DocumentBuffer()
    private(set) var sections: [Section] = []
    /// (vBucket, seqno) pairs that are dead once this batch is committed.
    private(set) var dead: [(vBucket: UInt16, seqno: UInt64)] = []
    /// Writes that are neither committed nor aborted as of their vBucket's record, and their levels.
    let prepares = DocumentBuffer()
    private(set) var levels: [DurabilityLevel] = []
    /// (vBucket, seqno) pairs of prepares that may be on disk and are not outstanding any more.
    private(set) var completed: [(vBucket: UInt16, seqno: UInt64)] = []

    package init() {}

    /// Starts the part of a vBucket; what is appended until the next `begin` belongs to it.
    ///
    /// A record without documents is fine: that is how a change of state is committed.
    package func begin(_ record: VBucketRecord) {
        precondition(
            record.highSeqno.value <= BlockBounds.seqnoMax,
            "a seqno has 48 bits"
        )
        let start = documents.count
        sections.append(Section(record: record, start: start, end: start, bytes: 0))
    }

    package func append(_ meta: DocumentMeta, key: ByteView, value: ByteView) {
        let last = sections.count - 1
        precondition(last >= 0, "a document is appended after its vBucket's record")
        precondition(
            meta.seqno <= sections[last].record.highSeqno,
            "a document's seqno is covered by its vBucket's record"
        )
        documents.append(meta, in: sections[last].record.id.number, key: key, value: value)
        sections[last].end += 1
        sections[last].bytes += value.count
    }

    /// Adds a prepare of the current vBucket, in ascending seqno as documents are.
    package func append(
        prepare meta: DocumentMeta,
        level: DurabilityLevel,
        key: ByteView,
        value: ByteView
    ) {
        guard let record = sections.last?.record else {
            preconditionFailure("a prepare is appended after its vBucket's record")
        }
        precondition(meta.seqno <= record.highSeqno, "a prepare is covered by its record")
        prepares.append(meta, in: record.id.number, key: key, value: value)
        levels.append(level)
    }

    /// Notes prepares of the current vBucket that were committed or aborted; they need not be on
    /// disk.
    package func completed(_ seqnos: some Sequence<Seqno>) {
        guard let section = sections.last else {
            preconditionFailure("prepares are completed after their vBucket's record")
        }
        completed += seqnos.map { (section.record.id.number, $0.value) }
    }

    /// Notes that a persisted version of the current vBucket is replaced by what was appended.
    package func superseded(_ seqno: Seqno) {
        guard let section = sections.last else {
            preconditionFailure("versions are superseded after their vBucket's record")
        }
        dead.append((section.record.id.number, seqno.value))
    }

    /// The same for many.
    package func superseded(_ seqnos: some Sequence<Seqno>) {
        for seqno in seqnos { superseded(seqno) }
    }

    /// Documents and prepares so far.
    package var documentCount: Int { documents.count + prepares.count }

    /// vBuckets so far.
    package var vBucketCount: Int { sections.count }

    package var isEmpty: Bool { sections.isEmpty }

    /// Bytes of memory in use.
    package var byteCount: Int { documents.byteCount + prepares.byteCount }

    /// Forgets the content, and the memory with it but for a little.
    package func trim() {
        documents.removeAllAndTrim()
        prepares.removeAllAndTrim()
        sections = []
        dead = []
        levels = []
        completed = []
    }

    /// Forgets the content and keeps the memory for as much again.
    package func reset() {
        documents.removeAll()
        prepares.removeAll()
        sections.removeAll(keepingCapacity: true)
        dead.removeAll(keepingCapacity: true)
        levels.removeAll(keepingCapacity: true)
        completed.removeAll(keepingCapacity: true)
    }
}
