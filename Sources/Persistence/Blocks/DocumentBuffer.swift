internal import Bytes
internal import Vocabulary

/// Documents in flat memory, ready to be packed into blocks.
///
/// The flusher fills the buffer under vBucket locks, compaction from old blocks. Adding a document
/// is three copies into preallocated memory: no allocation, no reference counting.
final class DocumentBuffer {
    /// One document: its metadata and the offsets of its key and value.
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
        /// Adjacent documents of one vBucket in different groups must not share a run: a surviving
        /// block has seqnos between theirs.
        var group: UInt32
    }

    /// The bits of `Entry.state`; the state column on disk has the same bits.
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

    /// Bytes of keys, values and entries in the buffer.
    var byteCount: Int { values.count + keys.count + entries.count * MemoryLayout<Entry>.stride }

    func append(_ meta: DocumentMeta, in vBucket: UInt16, key: ByteView, value: ByteView) {
        precondition(1...255 ~= key.count, "a key has 1 to 255 bytes")
        precondition(value.count <= BlockBounds.valueBytesMax, "a value is at most 64 MiB")
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

    /// Removes all documents and keeps the memory.
    ///
    /// Under load the next commit has a similar size, and fresh pages cost an eighth of a writer's
    /// time. If less than a quarter of the memory was used, the excess is freed.
    func removeAll() {
        if values.count + keys.count < values.capacity / 4 { return removeAllAndTrim() }
        entries.removeAll(keepingCapacity: true)
        keys.removeAll()
        values.removeAll(keepingAtMost: 16 << 20)
    }

    /// Removes all documents and frees the memory beyond what a small commit needs: a hundred
    /// buckets may have four idle buffers each.
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
