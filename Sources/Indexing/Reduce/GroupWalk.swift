package import Bytes
internal import Vocabulary

/// Enumerates the groups of a range: the rows whose keys have the same first bytes.
///
/// A group that ends in the leaf where it begins is passed row by row. Of a larger one only the range
/// is returned, to be reduced from stored results, and the walk continues after it: the cost is that
/// of the groups, not of their rows.
package final class GroupWalk {
    package struct Group {
        package let prefix: [UInt8]
        /// The rows to reduce, if they were not passed.
        package let range: KeyRange?
    }

    package struct Settings {
        package var isDescending = false
        package var mask: VBucketMask?
        /// The group level of the query: passed to `prefixLength` as it is.
        package var level = 1
        /// How many of a key's first bytes name its group at a level.
        package var prefixLength: (_ key: ByteView, _ level: Int) -> Int

        package init(prefixLength: @escaping (_ key: ByteView, _ level: Int) -> Int) {
            self.prefixLength = prefixLength
        }
    }

    /// Groups without wanted rows that one call passes.
    package static let skippedMax = 64

    private let tree: Tree
    private let range: KeyRange
    private let settings: Settings
    private var walk: RangeWalk?
    private var pending: IndexEntry?
    private let prefix = KeyBuffer()
    /// The key at the far end of a leaf: if it is of the group, the group may go on beyond.
    private var border: (leaf: IndexNodeID, key: KeyBuffer)?

    package init(_ tree: Tree, _ range: KeyRange, settings: Settings) {
        self.tree = tree
        self.range = range
        self.settings = settings
        walk = RangeWalk(tree, range, descending: settings.isDescending)
    }

    /// The next group; nil after the last.
    ///
    /// Calls `add` for its rows in the order of keys, or returns their range. With a mask, a group
    /// that is returned may have no rows of its vBuckets: of many such groups behind each other, some
    /// are returned, so that the caller can pause.
    ///
    /// - Throws: What the source and `add` throw, and `IndexError.damaged` for nodes that contradict
    ///   each other.
    package func next(
        _ add: (IndexEntry) throws(IndexError) -> Void
    ) throws(IndexError) -> Group? {
        var skipped = 0
        while let walk {
            var next = pending
            if next == nil { next = try walk.next() }
            pending = nil
            guard let entry = next else { break }
            let length = settings.prefixLength(entry.key, settings.level)
            prefix.set(entry.key.slice(0, min(max(length, 0), entry.key.count)))
            if try isOfGroup(borderKey(walk)) { return largeGroup(entry) }
            let rows =
                settings.isDescending
                ? try passBackward(entry, walk, add: add) : try passForward(entry, walk, add: add)
            skipped += 1
            if rows > 0 || skipped == GroupWalk.skippedMax {
                return Group(prefix: prefix.view.bytes, range: nil)
            }
        }
        walk = nil
        return nil
    }

    private func isOfGroup(_ key: ByteView) -> Bool {
        key.count >= prefix.count && key.slice(0, prefix.count).equals(prefix.view)
    }

    private func isWanted(_ entry: IndexEntry) -> Bool {
        settings.mask?.contains(entry.vBucket) ?? true
    }

    /// The last key of the walk's leaf, or the first if the walk is descending.
    private func borderKey(_ walk: RangeWalk) throws(IndexError) -> ByteView {
        guard let leaf = walk.leafNode else { return .empty }
        if let border, border.leaf == leaf.id { return border.key.view }
        let key = KeyBuffer()
        var offset = leaf.restart(settings.isDescending ? 0 : leaf.restarts - 1)
        while offset < leaf.entriesEnd {
            let shape = leaf.shape(at: offset)
            key.replace(after: shape.shared, with: leaf.start + shape.suffix, shape.suffixCount)
            if settings.isDescending { break }
            offset = shape.end
        }
        border = (leaf.id, key)
        return key.view
    }

    private func largeGroup(_ entry: IndexEntry) -> Group {
        let bytes = prefix.view.bytes
        var group: KeyRange
        var rest = range
        if settings.isDescending {
            group = KeyRange(start: bytes, end: entry.key.bytes + [0])
            if bytes.lexicographicallyPrecedes(range.start) { group.start = range.start }
            rest.end = group.start
            walk = bytes.isEmpty ? nil : RangeWalk(tree, rest, descending: true)
        } else {
            let end = KeyRange.end(ofPrefix: prefix.view)
            group = KeyRange(start: entry.key.bytes, end: end)
            if let limit = range.end, end.map({ limit.lexicographicallyPrecedes($0) }) ?? true {
                group.end = limit
            }
            rest.start = end ?? []
            walk = end == nil ? nil : RangeWalk(tree, rest)
        }
        return Group(prefix: bytes, range: group)
    }

    private func passForward(
        _ first: IndexEntry,
        _ walk: RangeWalk,
        add: (IndexEntry) throws(IndexError) -> Void
    ) throws(IndexError) -> Int {
        var rows = 0
        var entry: IndexEntry? = first
        while let current = entry, isOfGroup(current.key) {
            if isWanted(current) {
                try add(current)
                rows += 1
            }
            entry = try walk.next()
        }
        pending = entry
        if entry == nil { self.walk = nil }
        return rows
    }

    private func passBackward(
        _ last: IndexEntry,
        _ walk: RangeWalk,
        add: (IndexEntry) throws(IndexError) -> Void
    ) throws(IndexError) -> Int {
        guard let leaf = walk.leafNode else { return 0 }
        var cursor = LeafCursor(leaf)
        let bounds = KeyBounds(range)
        cursor.seek(prefix.view.precedes(bounds.start) ? bounds.start : prefix.view)
        var rows = 0
        while cursor.advance(), let entry = cursor.entry, !last.key.precedes(entry.key) {
            if isWanted(entry) {
                try add(entry)
                rows += 1
            }
        }
        repeat { pending = try walk.next() } while pending.map { isOfGroup($0.key) } ?? false
        if pending == nil { self.walk = nil }
        return rows
    }
}
