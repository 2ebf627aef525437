internal import Bytes
internal import Vocabulary

/// Entries in the making: what becomes the body of one node, or of several.
///
/// - Keys are appended in order; each shares what it can with the one before it.
final class EntryRun {
    let kind: EntryKind
    let bytes = ByteWriter(capacity: 8 << 10)
    @exclusivity(unchecked) var restarts: [Int] = []
    @exclusivity(unchecked) var entries = 0
    /// Rows in and below what was appended.
    @exclusivity(unchecked) var rows: UInt64 = 0
    let lastKey = KeyBuffer()
    /// Entries since the last restart, with it.
    @exclusivity(unchecked) var sinceRestart = 0

    init(_ kind: EntryKind) {
        self.kind = kind
        bytes.append(bigEndian: UInt64(0))
        restarts.reserveCapacity(256)
    }

    func removeAll() {
        bytes.removeAll()
        bytes.append(bigEndian: UInt64(0))
        restarts.removeAll(keepingCapacity: true)
        entries = 0
        rows = 0
        lastKey.removeAll()
        sinceRestart = 0
    }

    /// Bytes of the body if nothing more is appended.
    var bodyBytes: Int { bytes.count + 2 * restarts.count + NodeFormat.trailerBytes }

    /// Bytes of the body, at most, after an entry of this size.
    func bodyBytes(adding key: ByteView, _ payloadBytes: Int, interval: Int) -> Int {
        let isRestart = sinceRestart == 0 || sinceRestart >= interval
        let shared = isRestart ? 0 : min(lastKey.view.sharedPrefix(with: key), 255)
        return bodyBytes + (isRestart ? 2 : 0) + 4 + key.count - shared + payloadBytes
    }

    /// Appends the shared and own bytes of a key; its payload must follow.
    @inline(__always)
    private func append(key: ByteView, isRestart: Bool) {
        var shared = 0
        if isRestart {
            restarts.append(bytes.count)
            sinceRestart = 0
        } else {
            shared = min(lastKey.view.sharedPrefix(with: key), 255)
        }
        let length = key.count - shared
        let room = bytes.claim(1 + SmallBytes.length(of: UInt64(length)) + length)
        room.storeBytes(of: UInt8(truncatingIfNeeded: shared), as: UInt8.self)
        var place = 1
        var rest = length
        while rest >= 0x80 {
            room.storeBytes(
                of: UInt8(truncatingIfNeeded: rest) | 0x80,
                toByteOffset: place,
                as: UInt8.self
            )
            rest >>= 7
            place += 1
        }
        room.storeBytes(of: UInt8(rest), toByteOffset: place, as: UInt8.self)
        Memory.copy(to: room + place + 1, from: key.start + shared, count: length)
        lastKey.replace(after: shared, with: key.start + shared, length)
        entries += 1
        sinceRestart += 1
    }

    /// Appends an entry whose payload is encoded already.
    @inline(__always)
    func append(key: ByteView, payload: ByteView, interval: Int = NodeFormat.restartInterval) {
        append(key: key, isRestart: sinceRestart == 0 || sinceRestart >= interval)
        bytes.append(payload)
    }

    @inline(__always)
    func appendWhole(key: ByteView, payload: ByteView) {
        append(key: key, isRestart: true)
        bytes.append(payload)
    }

    /// Appends an entry of a leaf, with its value or the number of a big value.
    @inline(__always)
    func append(
        key: ByteView,
        head: SmallBytes,
        value: ByteView,
        interval: Int = NodeFormat.restartInterval
    ) {
        append(key: key, isRestart: sinceRestart == 0 || sinceRestart >= interval)
        head.withView { bytes.append($0) }
        bytes.append(value)
    }

    /// Completes the body with header and trailer, and appends it to `writes`.
    func write(to writes: NodeWriteList, _ id: IndexNodeID, version: UInt32, level: Int) {
        let body = bytes.view
        writes.begin(id, version: version, level: level)
        let target = writes.bytes
        target.reserve(bodyBytes)
        let start = target.count
        target.append(kind.rawValue)
        target.append(UInt8(level))
        target.append(littleEndian: UInt16(entries))
        target.append(littleEndian: version)
        target.append(body.dropFirst(NodeFormat.headerBytes))
        for restart in restarts { target.append(littleEndian: UInt16(restart)) }
        target.append(littleEndian: UInt16(restarts.count))
        target.append(littleEndian: CRC32C.checksum(target.view.dropFirst(start)))
        writes.end()
    }
}

/// Reads the entries of a node, or of a run, one after the other.
struct SequentialEntries {
    let base: UnsafeRawPointer
    let end: Int
    let kind: EntryKind
    let key: KeyBuffer
    private var next = NodeFormat.headerBytes

    init(_ node: IndexNode, key: KeyBuffer) {
        base = node.start
        end = node.entriesEnd
        kind = node.kind
        self.key = key
        key.removeAll()
    }

    /// The body of a node that an edit or a bulk load wrote, so that it needs no check.
    init(body: ByteView, _ kind: EntryKind, key: KeyBuffer) {
        let trailer = body.count - NodeFormat.trailerBytes
        base = body.start
        end = trailer - 2 * Int(body.littleEndian(at: trailer, as: UInt16.self))
        self.kind = kind
        self.key = key
        key.removeAll()
    }

    /// The run must not change while it is read.
    init(_ run: EntryRun, key: KeyBuffer) {
        base = run.bytes.view.start
        end = run.bytes.count
        kind = run.kind
        self.key = key
        key.removeAll()
    }

    /// The next entry, whose key is in `key`; nil after the last.
    @inline(__always)
    mutating func advance() -> EntryShape? {
        guard next < end else { return nil }
        let found = EntryShape(base, next, kind: kind)
        key.replace(after: found.shared, with: base + found.suffix, found.suffixCount)
        next = found.end
        return found
    }

    func payload(_ shape: EntryShape) -> ByteView {
        ByteView(start: base + shape.payload, count: shape.end - shape.payload)
    }
}
