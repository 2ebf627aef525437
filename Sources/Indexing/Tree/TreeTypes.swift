package import Bytes
package import Vocabulary

/// Why a tree cannot be read.
package enum IndexError: Error, Equatable, Sendable {
    /// The bytes stored under the number are not a valid node: the index must be rebuilt.
    case damaged(IndexNodeID, String)
    /// The source could not read: the text names the cause.
    case unreadable(String)
}

/// The next free numbers of an index; the trees of one index share them.
package struct TreeNumbers: Equatable, Sendable {
    package var nextNode: UInt64
    package var nextBigValue: UInt64

    package init(nextNode: UInt64 = 1, nextBigValue: UInt64 = 1) {
        self.nextNode = nextNode
        self.nextBigValue = nextBigValue
    }

    mutating func makeNode() -> IndexNodeID {
        defer { nextNode += 1 }
        return IndexNodeID(nextNode)
    }

    mutating func makeBigValue() -> IndexValueID {
        defer { nextBigValue += 1 }
        return IndexValueID(nextBigValue)
    }
}

/// Where a tree begins.
package struct TreeRoot: Equatable, Sendable {
    /// `IndexNodeID.none` for a tree without entries.
    package var id: IndexNodeID
    /// Levels of nodes: 0 for an empty tree, 1 if the root is a leaf.
    package var height: Int
    package var version: UInt32
    package var rows: UInt64

    package init(id: IndexNodeID, height: Int, version: UInt32, rows: UInt64) {
        self.id = id
        self.height = height
        self.version = version
        self.rows = rows
    }

    package static var empty: TreeRoot { TreeRoot(id: .none, height: 0, version: 0, rows: 0) }
}

/// Reads what the trees of one index are made of: one snapshot, as long as a walk or an edit lasts.
package protocol NodeSource: AnyObject {
    /// The node with the number, checked by `IndexNode.init`; a source may keep nodes for later reads.
    ///
    /// - Throws: `IndexError.damaged` if it is missing or invalid, `unreadable` if reading failed.
    func node(_ id: IndexNodeID) throws(IndexError) -> IndexNode

    /// The node with the number and, if the snapshot is undamaged, this version: a source may return a
    /// node that it kept of another snapshot, since a version has one content.
    ///
    /// - Throws: As `node(_:)`.
    func node(_ id: IndexNodeID, version: UInt32) throws(IndexError) -> IndexNode

    /// The bytes of a value that is too large for a leaf.
    ///
    /// - Throws: `IndexError.unreadable` if the value is missing or reading failed.
    func bigValue(_ id: IndexValueID) throws(IndexError) -> [UInt8]
}

extension NodeSource {
    /// Reads the node, and keeps none.
    ///
    /// - Throws: As `node(_:)`.
    package func node(_ id: IndexNodeID, version: UInt32) throws(IndexError) -> IndexNode {
        try node(id)
    }
}

/// One tree of an index in one snapshot: what walks and edits read.
package struct Tree {
    package let source: any NodeSource
    package let root: TreeRoot
    package let kind: EntryKind
    package let format: NodeFormat

    package init(
        _ root: TreeRoot,
        of kind: EntryKind,
        from source: any NodeSource,
        format: NodeFormat = .standard
    ) {
        precondition(kind != .child, "the entries of a tree are rows or documents")
        self.source = source
        self.root = root
        self.kind = kind
        self.format = format
    }

    /// The node, which must be what its parent says of it.
    func node(_ id: IndexNodeID, level: Int, _ version: UInt32) throws(IndexError) -> IndexNode {
        let node = try source.node(id, version: version)
        // Levels decrease on every path, so a cycle of nodes cannot trap a walk.
        guard node.level == level, node.version == version, node.kind == (level > 0 ? .child : kind)
        else { throw .damaged(id, "level, version or kind is not what the parent has") }
        return node
    }

    /// The node at the root, which is not that of an empty tree.
    func rootNode() throws(IndexError) -> IndexNode {
        try node(root.id, level: root.height - 1, root.version)
    }
}

/// The value of an entry.
package enum EntryValue {
    /// In the leaf; valid as long as the entry.
    case inline(ByteView)
    case big(IndexValueID, length: Int)
}

/// One entry of a tree, borrowed from a leaf until the walk moves on.
package struct IndexEntry {
    package let key: ByteView
    package let vBucket: VBucketID
    package let value: EntryValue
}

extension NodeSource {
    /// Calls `body` with a value's bytes, wherever they are.
    ///
    /// - Throws: `IndexError` if a big value cannot be read.
    @inline(__always)
    package func withValue<Result>(
        _ value: EntryValue,
        _ body: (ByteView) -> Result
    ) throws(IndexError) -> Result {
        switch value {
        case .inline(let view): return body(view)
        case .big(let id, _):
            let bytes = try bigValue(id)
            return bytes.withUnsafeBytes { body(ByteView($0)) }
        }
    }
}

/// The keys from `start` on, and before `end`.
package struct KeyRange: Equatable, Sendable {
    package var start: [UInt8]
    /// Nil: to the end of the tree.
    package var end: [UInt8]?

    package init(start: [UInt8] = [], end: [UInt8]? = nil) {
        self.start = start
        self.end = end
    }

    /// The first key after all keys that begin with `prefix`; nil if there is none.
    package static func end(ofPrefix prefix: ByteView) -> [UInt8]? {
        var bytes = prefix.bytes
        while let last = bytes.popLast() {
            if last < 0xff {
                bytes.append(last + 1)
                return bytes
            }
        }
        return nil
    }
}

/// The borders of a range as views, which live as long as this value.
struct KeyBounds {
    private let startBytes: ByteWriter
    private let endBytes: ByteWriter?

    init(_ range: KeyRange) {
        startBytes = ByteWriter(capacity: range.start.count)
        startBytes.append(range.start)
        endBytes = range.end.map { bytes in
            let writer = ByteWriter(capacity: bytes.count)
            writer.append(bytes)
            return writer
        }
    }

    var start: ByteView { startBytes.view }
    /// The start; nil if it is not above the first key of a tree.
    var low: ByteView? { start.isEmpty ? nil : start }
    /// The end; nil if there is none.
    var high: ByteView? { endBytes?.view }
}
