internal import Bytes
internal import Vocabulary

/// Documents laid flat in memory, ready to be packed into blocks.
///
/// Filled under vBucket locks (by the flusher) or from old blocks (by compaction), so adding one
/// is three copies into memory that is already there: no allocation, no reference count.
final class DocumentBuffer {
    /// One document: its metadata, and where its key and value lie.
    struct Entry {
        var seqno: UInt64
        var cas: UInt64
        var revision: UInt64
        var valueOffset: Int
        var keyOffset: Int
        var valueLength: UInt32
        var flags: UInt32
        var expiry: UInt32
        var vBucket: UInt16
        var keyLength: UInt8
        var state: UInt8
        /// Neighbours of one vBucket in different groups must not share a run: a block that stays
        /// has seqnos between theirs.
        var group: UInt32
    }

    /// The bits of `Entry.state`, which are also the state column on disk.
    enum State {
        static let deleted: UInt8 = 1
        static let expired: UInt8 = 2
        /// The revision is not 1.
        static let revision: UInt8 = 4
        static let flags: UInt8 = 8
        static let expiry: UInt8 = 16
        /// JSON, snappy and xattr, from here up.
        static let datatypeShift: UInt8 = 5
    }

    private(set) var entries: [Entry] = []
    let keys = ByteWriter(capacity: 4 << 10)
    let values = ByteWriter(capacity: 16 << 10)

    var count: Int { entries.count }

    /// What the buffer holds, in bytes.
    var byteCount: Int { values.count + keys.count + entries.count * MemoryLayout<Entry>.stride }

    func append(_ meta: DocumentMeta, in vBucket: UInt16, key: ByteView, value: ByteView) {
        precondition(1...255 ~= key.count, "a key has 1 to 255 bytes")
        precondition(value.count <= BlockBounds.valueBytesMax, "a value this large was refused")
        precondition(
            1...BlockBounds.seqnoMax ~= meta.seqno.value,
            "a stored document has a seqno of 48 bits"
        )
        precondition(meta.datatype.rawValue < 8, "a datatype has three bits")
        let entry = Entry(
            seqno: meta.seqno.value,
            cas: meta.cas.value,
            revision: meta.revision,
            valueOffset: values.count,
            keyOffset: keys.count,
            valueLength: UInt32(value.count),
            flags: meta.flags,
            expiry: meta.expiry,
            vBucket: vBucket,
            keyLength: UInt8(key.count),
            state: DocumentBuffer.state(of: meta),
            group: 0
        )
        keys.append(key)
        values.append(value)
        entries.append(entry)
    }

    private static func state(of meta: DocumentMeta) -> UInt8 {
        var state = meta.datatype.rawValue << State.datatypeShift
        if meta.isDeleted { state |= State.deleted }
        if meta.isExpired { state |= State.expired }
        if meta.revision != 1 { state |= State.revision }
        if meta.flags != 0 { state |= State.flags }
        if meta.expiry != 0 { state |= State.expiry }
        return state
    }

    func assign(group: UInt32, to index: Int) { entries[index].group = group }

    func key(_ entry: Entry) -> ByteView { keys.view.slice(entry.keyOffset, Int(entry.keyLength)) }

    func value(_ entry: Entry) -> ByteView {
        values.view.slice(entry.valueOffset, Int(entry.valueLength))
    }

    /// Forgets everything and keeps the memory.
    ///
    /// Under load the next commit is as large, and fresh pages cost an eighth of a writer's time.
    /// What was taken for much more is given back.
    func removeAll() {
        if values.count + keys.count < values.capacity / 4 { return removeAllAndTrim() }
        entries.removeAll(keepingCapacity: true)
        keys.removeAll()
        values.removeAll(keepingAtMost: 16 << 20)
    }

    /// Forgets everything, and the memory beyond what a small commit needs: there may be four idle
    /// buffers for each of a hundred buckets.
    func removeAllAndTrim() {
        if entries.capacity > 4 << 10 {
            entries = []
        } else {
            entries.removeAll(keepingCapacity: true)
        }
        keys.removeAll(keepingAtMost: 64 << 10)
        values.removeAll(keepingAtMost: 512 << 10)
    }
}
