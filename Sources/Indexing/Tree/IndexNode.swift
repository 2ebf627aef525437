package import Bytes
package import Vocabulary

/// The bytes of one node, checked once, so that walks read them without checks.
///
/// - Every entry lies within the body, every restart is a whole entry, keys strictly increase, the
///   checksum is right: invalid bytes are an error, and never reach a walk.
/// - A node is immutable; a source may keep it and return it to several walks of one thread, and after
///   `decodeChildren` to those of several threads.
package final class IndexNode {
    package let id: IndexNodeID
    package let version: UInt32
    /// Rows in and below the node.
    package let rows: UInt64
    /// 0 for a leaf.
    package let level: Int
    let entries: Int
    let kind: EntryKind
    let start: UnsafeRawPointer
    let entriesEnd: Int
    let restarts: Int
    private let memory: UnsafeMutableRawPointer
    /// Bytes of the body.
    package let count: Int

    /// Copies and checks `body`.
    ///
    /// - Throws: `IndexError.damaged` if the bytes are not a node of this format.
    package init(_ id: IndexNodeID, body: ByteView, format: NodeFormat) throws(IndexError) {
        var check = NodeCheck(id: id, body: body, format: format)
        let header = try check.run()
        self.id = id
        version = header.version
        rows = check.rows
        level = header.level
        entries = header.entries
        kind = header.kind
        entriesEnd = check.entriesEnd
        restarts = check.restarts
        count = body.count
        memory = Memory.allocate(body.count)
        Memory.copy(to: memory, from: body.start, count: body.count)
        start = UnsafeRawPointer(memory)
    }

    deinit { Memory.free(memory) }

    package var body: ByteView { ByteView(start: start, count: count) }

    package var isLeaf: Bool { level == 0 }

    @inline(__always)
    func restart(_ index: Int) -> Int {
        Int(
            UInt16(
                littleEndian: start.loadUnaligned(
                    fromByteOffset: entriesEnd + 2 * index,
                    as: UInt16.self
                )
            )
        )
    }

    @inline(__always)
    func shape(at offset: Int) -> EntryShape { EntryShape(start, offset, kind: kind) }

    /// The key of the whole entry at a restart.
    @inline(__always)
    func restartKey(_ index: Int) -> ByteView {
        var offset = restart(index) + 1
        let length = Int(truncatingIfNeeded: Varint.read(start, &offset))
        return ByteView(start: start + offset, count: length)
    }

    /// Whether the entry, whose predecessor has the key `before`, precedes `key`.
    @inline(__always)
    func entry(_ shape: EntryShape, after before: KeyBuffer, precedes key: ByteView) -> Bool {
        let order = Memory.compare(before.start, key.start, count: min(shape.shared, key.count))
        if order != 0 { return order < 0 }
        if key.count <= shape.shared { return false }
        let suffix = ByteView(start: start + shape.suffix, count: shape.suffixCount)
        return suffix.precedesQuickly(
            ByteView(start: key.start + shape.shared, count: key.count - shape.shared)
        )
    }

    /// The children and restart places of an inner node, decoded once.
    private struct Decoded {
        /// Without their separators.
        var children: [ChildRef] = []
        /// By restart: the place of the child there.
        ///
        /// Restarts are at varying distances.
        var restartPlaces: [UInt16] = []
    }

    private lazy var decoded: Decoded = {
        var decoded = Decoded()
        decoded.children.reserveCapacity(entries)
        decoded.restartPlaces.reserveCapacity(restarts)
        var offset = NodeFormat.headerBytes
        while offset < entriesEnd {
            let found = decoded.restartPlaces.count
            if found < restarts, restart(found) == offset {
                decoded.restartPlaces.append(UInt16(decoded.children.count))
            }
            let shape = shape(at: offset)
            decoded.children.append(ChildRef(ChildPayload(start, shape.payload)))
            offset = shape.end
        }
        return decoded
    }()

    /// The children of an inner node, decoded once; without their separators.
    var children: [ChildRef] { decoded.children }

    /// Decodes what is decoded once, so that no later read changes the node.
    package func decodeChildren() {
        if !isLeaf { _ = decoded }
    }

    /// The bytes of memory of a node whose children are decoded.
    package var memoryBytes: Int {
        guard !isLeaf else { return count }
        return count + entries * MemoryLayout<ChildRef>.stride
            + restarts * MemoryLayout<UInt16>.stride
    }

    /// The place of the child that a key falls into.
    func child(for key: ByteView) -> Int {
        let group = lastRestart(before: key, orEqual: true) ?? 0
        var place = Int(decoded.restartPlaces[group]) - 1
        var offset = restart(group)
        let before = KeyBuffer()
        while offset < entriesEnd {
            let shape = shape(at: offset)
            before.replace(after: shape.shared, with: start + shape.suffix, shape.suffixCount)
            if key.precedes(before.view) { break }
            place += 1
            offset = shape.end
        }
        return max(place, 0)
    }

    /// The last restart among `first...` whose key precedes `key` (or equals it, if asked); nil if
    /// none does.
    func lastRestart(before key: ByteView, orEqual: Bool, from first: Int = 0) -> Int? {
        var low = first
        var high = restarts
        while low < high {
            let middle = (low + high) / 2
            let found = restartKey(middle)
            if orEqual ? !key.precedes(found) : found.precedes(key) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low > first ? low - 1 : nil
    }
}

/// Where the parts of an entry are in its node.
struct EntryShape {
    let shared: Int
    let suffix: Int
    let suffixCount: Int
    let payload: Int
    let end: Int

    /// Reads an entry of a node that was checked.
    @inline(__always)
    init(_ base: UnsafeRawPointer, _ start: Int, kind: EntryKind) {
        var offset = start + 1
        shared = Int(base.load(fromByteOffset: start, as: UInt8.self))
        suffixCount = Int(truncatingIfNeeded: Varint.read(base, &offset))
        suffix = offset
        offset += suffixCount
        payload = offset
        if kind == .child {
            _ = Varint.read(base, &offset)
            _ = Varint.read(base, &offset)
            _ = Varint.read(base, &offset)
        } else {
            if kind == .row { _ = Varint.read(base, &offset) }
            let length = Varint.read(base, &offset)
            // A big value was checked to be marked by its length: see `LeafPayload`.
            if length & 1 == 0 {
                offset += Int(truncatingIfNeeded: length >> 1)
            } else {
                _ = Varint.read(base, &offset)
            }
        }
        end = offset
    }
}

/// The payload of a row or a back entry.
struct LeafPayload {
    let vBucket: UInt16
    let length: Int
    let isBig: Bool
    /// Where the value, or the number of the big value, begins.
    let value: Int

    @inline(__always)
    init(_ base: UnsafeRawPointer, _ shape: EntryShape, kind: EntryKind) {
        var offset = shape.payload
        vBucket =
            kind == .row ? UInt16(truncatingIfNeeded: Varint.read(base, &offset)) : 0
        let coded = Varint.read(base, &offset)
        length = Int(truncatingIfNeeded: coded >> 1)
        isBig = coded & 1 == 1
        value = offset
    }

    @inline(__always)
    func entryValue(_ base: UnsafeRawPointer) -> EntryValue {
        guard isBig else { return .inline(ByteView(start: base + value, count: length)) }
        var offset = value
        return .big(IndexValueID(Varint.read(base, &offset)), length: length)
    }
}

/// The payload of a child.
struct ChildPayload {
    let id: IndexNodeID
    let version: UInt32
    let rows: UInt64

    @inline(__always)
    init(_ base: UnsafeRawPointer, _ payload: Int) {
        var offset = payload
        id = IndexNodeID(Varint.read(base, &offset))
        version = UInt32(truncatingIfNeeded: Varint.read(base, &offset))
        rows = Varint.read(base, &offset)
    }
}
