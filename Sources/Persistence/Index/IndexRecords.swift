package import Vocabulary

/// The identity that an index file must have to be used for a view: the file's constant part.
package struct IndexIdentity: Hashable, Sendable {
    /// 32 lower-case hexadecimal digits; also the file's name.
    package let signature: String
    /// The version of the collation with which the file's keys were made.
    package let collator: String
    package let bucketUUID: String
    /// The text of the map function, for operators and tools.
    package let mapSource: String

    package init(signature: String, collator: String, bucketUUID: String, mapSource: String) {
        self.signature = signature
        self.collator = collator
        self.bucketUUID = bucketUUID
        self.mapSource = mapSource
    }
}

/// Limits of one index file and its connections.
package struct IndexSettings: Hashable, Sendable {
    /// Bytes of SQLite's page cache, per connection.
    package var cacheBytes = 2 << 20
    /// Read connections that may be open at a time: each costs its cache and three descriptors.
    package var readersMax = 8
    /// The WAL file is shortened to this many bytes when it begins again from its start.
    package var walBytesKept = 16 << 20
    /// Maximum pages of the file; 0 for no limit.
    package var filePagesMax = 0

    package init() {}
}

/// Whether an index has all rows yet.
package enum IndexState: UInt8, Hashable, Sendable {
    /// The first build is not complete. Next: `ready`.
    case building = 0
    /// The trees contain the rows up to every vBucket's seqno.
    case ready = 1
}

/// Where a tree begins.
package struct IndexRoot: Hashable, Sendable {
    /// `none` for an empty tree.
    package var node: IndexNodeID
    /// Levels of the tree; 0 for an empty tree.
    package var height: UInt32
    /// The version of the root's node, which its parent would have.
    package var version: UInt32
    /// Entries of the tree.
    package var rows: UInt64

    package init(node: IndexNodeID, height: UInt32, version: UInt32, rows: UInt64) {
        self.node = node
        self.height = height
        self.version = version
        self.rows = rows
    }

    package static let empty = IndexRoot(node: .none, height: 0, version: 0, rows: 0)
}

/// The part of the file that every commit replaces.
package struct IndexHead: Hashable, Sendable {
    /// The commit that stored this head.
    package internal(set) var commit = IndexCommit(0)
    package var state = IndexState.building
    package var main = IndexRoot.empty
    package var back = IndexRoot.empty
    /// The lowest number that no reachable node has.
    ///
    /// Nodes from here on are left over from a bulk load that was not completed.
    package var nextNode = IndexNodeID(1)
    /// The same for values.
    package var nextValue = IndexValueID(1)

    package init() {}
}

/// An unfinished compaction, as the file records it.
package enum UnfinishedCompaction: Hashable, Sendable {
    /// The copy of the trees, with numbers from the head's next ones on. Next: trees, or nothing.
    case copy
    /// The trees before: all nodes and values below these numbers. Next: nothing.
    case trees(below: IndexNodeID, IndexValueID)

    /// The name of its row in the table `meta`.
    static let name = "compaction"

    var text: String {
        switch self {
        case .copy: "copy"
        case .trees(let node, let value): "trees \(node.value) \(value.value)"
        }
    }

    init?(text: String) {
        let words = text.split(separator: " ")
        if text == "copy" {
            self = .copy
        } else if words.count == 3, words[0] == "trees", let node = UInt64(words[1]),
            let value = UInt64(words[2])
        {
            self = .trees(below: IndexNodeID(node), IndexValueID(value))
        } else {
            return nil
        }
    }
}

/// An index's progress in one vBucket; moves in the same transaction as the rows.
package struct IndexVBucket: Hashable, Sendable {
    package let id: VBucketID
    package var home = VBucketHome.none
    /// The root of the side tree; `none` without one.
    package var root = IndexNodeID.none
    /// Rows of this vBucket in the index.
    package var rows: UInt64 = 0
    /// The history that `seqno` belongs to.
    package var uuid = VBucketUUID(0)
    /// Changes up to this seqno are in the index.
    package var seqno = Seqno.zero
    package var snapshotStart = Seqno.zero
    package var snapshotEnd = Seqno.zero
    /// The highest seqno whose log entry was trimmed: the log is complete above it.
    package var logFloor = Seqno.zero

    package init(_ id: VBucketID) {
        self.id = id
    }
}

/// The stored partial results of one reduce function.
package struct IndexSlot: Hashable, Sendable {
    package let id: IndexSlotID
    /// Identifies the reduce function.
    package let signature: String
    /// The kind of reduce function, opaque to this module.
    package let kind: UInt8
    package let source: String

    package init(id: IndexSlotID, signature: String, kind: UInt8, source: String) {
        self.id = id
        self.signature = signature
        self.kind = kind
        self.source = source
    }
}

/// A document that a view could not index, for operators.
package struct IndexFault: Hashable, Sendable {
    package let view: String
    package let document: [UInt8]
    /// The line of the map function, from 1; 0 if unknown.
    package let line: UInt32
    package let text: String

    package init(view: String, document: [UInt8], line: UInt32, text: String) {
        self.view = view
        self.document = document
        self.line = line
        self.text = text
    }
}

/// A complete sorted run.
package struct IndexRun: Hashable, Sendable {
    package let id: IndexRunID
    /// The chunks are numbered from 0 up to, not including, this.
    package let chunks: UInt32
}

/// The result of a checkpoint.
package struct IndexCheckpoint: Hashable, Sendable {
    /// Pages in the WAL.
    package let walPages: Int
    /// Pages of the WAL that are in the file now.
    ///
    /// A reader with an old snapshot keeps the pages after it from being copied.
    package let copiedPages: Int

    /// Whether the next commit can begin the WAL again from its start.
    package var isComplete: Bool { copiedPages == walPages }
}
