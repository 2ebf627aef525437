internal import Bytes
internal import Vocabulary

/// A position in a leaf, which moves forward or backward.
///
/// Backward, the entries of one group between restarts are decoded together, because an entry's key
/// depends on those before it.
struct LeafCursor {
    private struct Decoded {
        let shape: EntryShape
        let key: Int
        let keyCount: Int
    }

    let node: IndexNode
    private let key = KeyBuffer()
    private var shape: EntryShape?
    /// Forward: the next entry.
    private var next = NodeFormat.headerBytes

    // Backward: the group's entries that were not visited yet, and the groups before it.
    private var group: [Decoded] = []
    private let groupKeys: ByteWriter
    private var groupsLeft = 0
    private var current: (key: Int, count: Int)?

    init(_ node: IndexNode) {
        self.node = node
        groupKeys = ByteWriter(capacity: 16)
    }

    /// The entry that the cursor is at; nil before the first move and after the last.
    @inline(__always)
    var entry: IndexEntry? {
        guard let shape else { return nil }
        let payload = LeafPayload(node.start, shape, kind: node.kind)
        let key = currentKey
        let vBucket =
            node.kind == .row
            ? payload.vBucket : key.count >= 2 ? key.bigEndian(at: 0, as: UInt16.self) : 0
        return IndexEntry(
            key: key,
            vBucket: VBucketID(vBucket),
            value: payload.entryValue(node.start)
        )
    }

    private var currentKey: ByteView {
        guard let current else { return key.view }
        return ByteView(start: groupKeys.view.start + current.key, count: current.count)
    }

    /// Moves to the next entry; false after the last.
    @inline(__always)
    mutating func advance() -> Bool {
        guard next < node.entriesEnd else {
            shape = nil
            return false
        }
        let found = node.shape(at: next)
        key.replace(after: found.shared, with: node.start + found.suffix, found.suffixCount)
        next = found.end
        shape = found
        return true
    }

    /// Places the cursor before the first entry that does not precede `target`.
    mutating func seek(_ target: ByteView) {
        shape = nil
        next = NodeFormat.headerBytes
        if let restart = node.lastRestart(before: target, orEqual: false) {
            next = node.restart(restart)
        }
        while next < node.entriesEnd {
            let found = node.shape(at: next)
            guard node.entry(found, after: key, precedes: target) else { return }
            key.replace(after: found.shared, with: node.start + found.suffix, found.suffixCount)
            next = found.end
        }
    }

    // MARK: Backward

    /// Places the cursor after the last entry that precedes `target`; nil: after the last.
    mutating func seekBackward(before target: ByteView?) {
        shape = nil
        group.removeAll(keepingCapacity: true)
        guard let target else {
            groupsLeft = node.restarts
            return
        }
        guard let restart = node.lastRestart(before: target, orEqual: false) else {
            groupsLeft = 0
            return
        }
        groupsLeft = restart
        decodeGroup(restart)
        while let last = group.last, !key(of: last).precedes(target) { group.removeLast() }
    }

    private func key(of decoded: Decoded) -> ByteView {
        ByteView(start: groupKeys.view.start + decoded.key, count: decoded.keyCount)
    }

    private mutating func decodeGroup(_ index: Int) {
        groupKeys.removeAll()
        var offset = node.restart(index)
        let end = index + 1 < node.restarts ? node.restart(index + 1) : node.entriesEnd
        while offset < end {
            let found = node.shape(at: offset)
            key.replace(after: found.shared, with: node.start + found.suffix, found.suffixCount)
            group.append(Decoded(shape: found, key: groupKeys.count, keyCount: key.count))
            groupKeys.append(key.view)
            offset = found.end
        }
    }

    /// Moves to the entry before; false before the first.
    mutating func retreat() -> Bool {
        while group.isEmpty {
            guard groupsLeft > 0 else {
                shape = nil
                return false
            }
            groupsLeft -= 1
            decodeGroup(groupsLeft)
        }
        let found = group.removeLast()
        shape = found.shape
        current = (found.key, found.keyCount)
        return true
    }
}
