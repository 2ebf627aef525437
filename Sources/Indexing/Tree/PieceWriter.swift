internal import Bytes

/// Writes a sequence of entries as several nodes of about equal size.
///
/// The nodes that the entries come from are written first, in order; then new ones. Nodes that are
/// not needed are freed.
struct PieceWriter {
    private let edit: TreeEdit
    private let run: EntryRun
    private let level: Int
    private let isLast: Bool
    /// Nodes to write, the next one first.
    private var reusable: ArraySlice<ChildRef>
    /// Bytes at which a node is complete.
    private let target: Int
    private var separator: (start: Int, count: Int)
    private var written: [ChildRef] = []
    /// A copy of the key that is appended: the edit's separators may move while it is in use.
    private let key = KeyBuffer()
    private let interval = NodeFormat.restartInterval

    init(_ edit: TreeEdit, level: Int, pieces: [ChildRef], total: Int, _ isLast: Bool) {
        self.edit = edit
        self.level = level
        self.isLast = isLast
        run = edit.pieceRun(level)
        run.removeAll()
        reusable = pieces[...]
        separator = (pieces[0].separator, pieces[0].separatorCount)
        let format = edit.format
        if total <= format.bodyBytesMax {
            target = format.bodyBytesMax
        } else if isLast {
            // Keys that grow fill their nodes once and for all.
            target = format.fillBytes
        } else {
            let count = max(2, (total + format.fillBytes - 1) / format.fillBytes)
            target = total / count
        }
    }

    mutating func append(_ newKey: ByteView, _ payload: ByteView, rows: UInt64) {
        key.set(newKey)
        let key = key.view
        let needed = run.bodyBytes(adding: key, payload.count, interval: interval)
        let least = level > 0 ? 2 : 1
        if run.entries >= least,
            needed > edit.format.bodyBytesMax || run.bodyBytes >= target
        {
            close()
            separate(from: key)
        }
        let isFirstChild = level > 0 && run.entries == 0
        run.append(key: isFirstChild ? .empty : key, payload: payload)
        run.rows += rows
    }

    /// The shortest key that is after the last entry of the run before, and not after `key`.
    private mutating func separate(from key: ByteView) {
        let count = level > 0 ? key.count : min(key.count, border.sharedPrefix(with: key) + 1)
        separator = (edit.separators.count, count)
        edit.separators.append(key.slice(0, count))
        run.removeAll()
    }

    /// The last key of the node that was completed.
    private var border: ByteView { run.lastKey.view }

    private mutating func close() {
        var child =
            reusable.popFirst()
            ?? ChildRef(id: edit.result.numbers.makeNode(), version: 0, rows: 0)
        child.separator = separator.start
        child.separatorCount = separator.count
        child.hasShrunk = false
        written.append(edit.write(run, in: child, level: level))
    }

    mutating func finish(into pieces: inout [ChildRef]) {
        close()
        for child in reusable { edit.discard(child) }
        // A node that received all entries of two may be small still.
        if written.count == 1 { written[0].hasShrunk = true }
        pieces.append(contentsOf: written)
    }
}
