internal import Bytes

/// Applies sorted operations to one leaf: copies untouched entries as they are, and encodes anew
/// only what is inserted and the entry after a change.
///
/// `next` is the first entry of the old leaf that was not yet copied or dropped; `before` is the key
/// of the entry before it. While `isApart`, the last entry written is another one, so that the entry
/// at `next` cannot be copied as it is.
struct LeafRewrite {
    private let node: IndexNode
    private let output: EntryRun
    private let before = KeyBuffer()
    private let whole = KeyBuffer()
    private var next = NodeFormat.headerBytes
    private var nextRestart = 0
    private var isApart = false
    private(set) var removed = 0
    private(set) var inserted = 0
    private(set) var isChanged = false

    init(_ node: IndexNode, to output: EntryRun) {
        self.node = node
        self.output = output
    }

    private var isAtEnd: Bool { next >= node.entriesEnd }

    private var isAtRestart: Bool {
        nextRestart < node.restarts && node.restart(nextRestart) == next
    }

    /// The whole key of the entry at `next`, in `whole`.
    private func readKey(_ shape: EntryShape) -> ByteView {
        whole.replace(after: 0, with: before.start, shape.shared)
        whole.replace(after: shape.shared, with: node.start + shape.suffix, shape.suffixCount)
        return whole.view
    }

    /// Moves to the first entry that does not precede `key`, and returns it if its key is `key`.
    mutating func seek(_ key: ByteView) -> EntryShape? {
        writeNext(before: key)
        guard !isApart else { return equal(key) }
        let start = next
        let startRestart = nextRestart
        // A jump needs a restart beyond `next` that precedes the key.
        if let restart = node.lastRestart(before: key, orEqual: false, from: nextRestart) {
            next = node.restart(restart)
            nextRestart = restart
            if next > start { before.removeAll() }
        }
        var since = next > start ? 0 : output.sinceRestart
        while !isAtEnd {
            let shape = node.shape(at: next)
            let found = readKey(shape)
            guard found.precedes(key) else { break }
            if isAtRestart { since = 0 }
            since += 1
            consume(shape, found)
        }
        copy(from: start, restart: startRestart, since: since)
        return equal(key)
    }

    private mutating func consume(_ shape: EntryShape, _ key: ByteView) {
        if isAtRestart { nextRestart += 1 }
        before.set(key)
        next = shape.end
    }

    private func equal(_ key: ByteView) -> EntryShape? {
        guard !isAtEnd else { return nil }
        let shape = node.shape(at: next)
        return readKey(shape).equals(key) ? shape : nil
    }

    /// Writes the entry after a change, if it precedes `key`, so that the rest can be copied.
    private mutating func writeNext(before key: ByteView?) {
        guard isApart, !isAtEnd else { return }
        let shape = node.shape(at: next)
        let found = readKey(shape)
        if let key, !found.precedes(key) { return }
        let payload = ByteView(start: node.start + shape.payload, count: shape.end - shape.payload)
        // A restart right after a restart is not worth its bytes.
        if isAtRestart, output.sinceRestart != 1 {
            output.appendWhole(key: found, payload: payload)
        } else {
            output.append(
                key: found,
                payload: payload,
                interval: NodeFormat.restartIntervalMax
            )
        }
        consume(shape, found)
        isApart = false
    }

    /// Copies the entries from `start` to `next`, the key of the last of which is in `before`.
    private func copy(from start: Int, restart: Int, since: Int) {
        guard next > start else { return }
        let distance = output.bytes.count - start
        output.bytes.append(ByteView(start: node.start + start, count: next - start))
        for index in restart..<nextRestart {
            output.restarts.append(node.restart(index) + distance)
        }
        output.sinceRestart = since
        output.lastKey.set(before.view)
    }

    /// Drops the entry at `next`.
    mutating func drop(_ shape: EntryShape) {
        if isAtRestart, output.sinceRestart > 0 {
            // The next entry written is whole in its place.
            output.sinceRestart = NodeFormat.restartIntervalMax
        }
        consume(shape, readKey(shape))
        isApart = true
        isChanged = true
        removed += 1
    }

    /// Writes an entry before that at `next`.
    mutating func insert(key: ByteView, head: SmallBytes, value: ByteView) {
        output.append(
            key: key,
            head: head,
            value: value,
            interval: NodeFormat.restartIntervalMax
        )
        isApart = true
        isChanged = true
        inserted += 1
    }

    /// Copies what is left.
    mutating func finish() {
        writeNext(before: nil)
        let start = next
        let startRestart = nextRestart
        next = node.entriesEnd
        nextRestart = node.restarts
        // Nothing is appended after this, so the last key is not needed.
        copy(from: start, restart: startRestart, since: 1)
        output.entries = node.entries + inserted - removed
        output.rows = UInt64(output.entries)
    }
}
