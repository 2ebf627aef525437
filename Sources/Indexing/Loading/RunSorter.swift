package import Bytes
internal import Vocabulary

/// An entry of a tree in a sorted run, or the removal of one; borrowed.
///
/// Layout in a run: key length (LEB128), vBucket (LEB128), twice the length of the value with bit 0
/// set for a removal (LEB128), key, value.
struct RunRecord {
    let key: ByteView
    let vBucket: VBucketID
    /// Empty for a removal.
    let value: ByteView
    let isRemoval: Bool

    /// Decodes the next record; nil if it is malformed.
    init?(_ reader: inout ByteReader) {
        guard let keyCount = reader.leb128(),
            let vBucket = reader.leb128().flatMap({ UInt16(exactly: $0) }),
            let head = reader.leb128(),
            keyCount <= UInt64(NodeFormat.keyBytesMax), head >> 1 <= UInt64(reader.rest.count),
            let key = reader.bytes(Int(keyCount)), let value = reader.bytes(Int(head >> 1))
        else { return nil }
        self.key = key
        self.vBucket = VBucketID(vBucket)
        self.value = value
        isRemoval = head & 1 == 1
    }
}

/// Collects entries of one tree in any order, and makes sorted parts of runs of them.
///
/// - Of several entries with one key, all are kept in the order in which they were added.
final class RunSorter {
    /// Where a record is.
    private struct Place {
        /// The first bytes of the key, so that most comparisons need no others.
        let prefix: UInt64
        let start: UInt32
        let key: UInt32
        let keyCount: UInt32
        let end: UInt32
    }

    private let bytes = ByteWriter(capacity: 64 << 10)
    private var places: [Place] = []

    init() {}

    var isEmpty: Bool { places.isEmpty }

    /// Bytes of all records and of what sorts them.
    var byteCount: Int { bytes.count + places.count * MemoryLayout<Place>.stride }

    func append(key: ByteView, vBucket: VBucketID, value: ByteView, isRemoval: Bool = false) {
        precondition(key.count <= NodeFormat.keyBytesMax, "a key of an index is at most 20 KiB")
        let start = bytes.count
        LEB128.append(UInt64(key.count), to: bytes)
        LEB128.append(UInt64(vBucket.number), to: bytes)
        LEB128.append(UInt64(value.count) << 1 | (isRemoval ? 1 : 0), to: bytes)
        let keyStart = bytes.count
        bytes.append(key)
        bytes.append(value)
        places.append(
            Place(
                prefix: key.orderPrefix,
                start: UInt32(start),
                key: UInt32(keyStart),
                keyCount: UInt32(key.count),
                end: UInt32(bytes.count)
            )
        )
    }

    /// Removes all records, and returns them sorted.
    func removeSorted() -> RunPart {
        let base = bytes.view.start
        places.sort { one, other in
            if one.prefix != other.prefix { return one.prefix < other.prefix }
            let order = Memory.compare(
                base + Int(one.key),
                base + Int(other.key),
                count: Int(min(one.keyCount, other.keyCount))
            )
            if order != 0 { return order < 0 }
            if one.keyCount != other.keyCount { return one.keyCount < other.keyCount }
            return one.start < other.start
        }
        let part = RunPart(capacity: bytes.count)
        for place in places {
            part.append(bytes.view.slice(Int(place.start), Int(place.end - place.start)))
        }
        bytes.removeAll(keepingAtMost: 4 << 20)
        places.removeAll(keepingCapacity: true)
        return part
    }
}

/// The sorted records of one tree in a run, divided into chunks of whole records.
package final class RunPart {
    private let bytes: ByteWriter
    private var ends: [Int] = []

    /// Bytes from which on a chunk is complete.
    private static let chunkBytes = 64 << 10

    init(capacity: Int) { bytes = ByteWriter(capacity: capacity) }

    package var isEmpty: Bool { bytes.count == 0 }

    package var byteCount: Int { bytes.count }

    /// All records; valid as long as the part does not change.
    var view: ByteView { bytes.view }

    /// Appends an encoded record, which must not precede the last one.
    fileprivate func append(_ record: ByteView) {
        if let last = ends.last, last - (ends.dropLast().last ?? 0) < RunPart.chunkBytes {
            ends.removeLast()
        }
        bytes.append(record)
        ends.append(bytes.count)
    }

    /// Calls `body` with each chunk and its number, from 0 on.
    ///
    /// - Throws: What `body` throws.
    package func forEachChunk<Failure: Error>(
        _ body: (UInt32, ByteView) throws(Failure) -> Void
    ) throws(Failure) {
        var start = 0
        for (number, end) in ends.enumerated() {
            try body(UInt32(number), bytes.view.slice(start, end - start))
            start = end
        }
    }

    /// The same records without those of a vBucket.
    func without(_ vBucket: VBucketID) -> RunPart {
        let rest = RunPart(capacity: bytes.count)
        var reader = ByteReader(view)
        while !reader.isAtEnd {
            let before = reader.rest
            guard let record = RunRecord(&reader) else {
                preconditionFailure("a part in memory has whole records")
            }
            guard record.vBucket != vBucket else { continue }
            rest.append(before.slice(0, before.count - reader.rest.count))
        }
        return rest
    }
}

extension ByteView {
    /// The first eight bytes as an integer, so that a lesser integer means a preceding view.
    var orderPrefix: UInt64 {
        if count >= 8 { return bigEndian(at: 0, as: UInt64.self) }
        var prefix: UInt64 = 0
        for offset in 0..<count { prefix |= UInt64(self[offset]) << UInt64(56 - 8 * offset) }
        return prefix
    }
}
