/// How a node is written: sizes, and the layout that `EntryRun` writes and `IndexNode` checks.
///
///     header   kind u8, level u8 (0: leaf), entries u16, version u32
///     entry    shared u8, suffix length, suffix, payload
///     trailer  restart offsets u16.., their number u16, CRC-32C of all bytes before it u32
///
/// Integers are little-endian; lengths, numbers and counts are LEB128. The payload of a row is its
/// vBucket, twice the length of its value, and the value; that of a back entry has no vBucket,
/// because its key begins with it. A value over `inlineBytesMax` is stored elsewhere: the
/// length's lowest bit is set, and the value's number follows. The payload of a child is its number, version and
/// rows. An entry shares the first bytes of its key with the entry before it, except that an entry at a restart is whole. A reader finds a
/// key by halving the restarts. There is a restart about every 16 entries; an edit copies untouched
/// entries as they are, so their distance varies.
///
/// The key of a child is the shortest that divides it from the child before it; the first child of
/// a node has an empty key. A child's version changes when the child does, and so the versions of
/// all nodes above it.
package struct NodeFormat: Hashable, Sendable {
    /// Bytes of a node with more than one entry, or two children; an entry may be larger.
    package let bodyBytesMax: Int

    package init(bodyBytesMax: Int) {
        precondition(
            bodyBytesMax >= 128 && bodyBytesMax <= 16 << 10,
            "a node has 128 bytes to 16 KiB"
        )
        self.bodyBytesMax = bodyBytesMax
    }

    /// A row of an SQLite page of 4 096 bytes.
    package static let standard = NodeFormat(bodyBytesMax: 4_036)

    /// Bytes of a value that is stored in a leaf.
    package var inlineBytesMax: Int { min(1_024, bodyBytesMax / 3) }

    /// Below this, a changed node is merged with its neighbour.
    var mergeBytes: Int { bodyBytesMax / 4 }

    /// Up to here a bulk load fills nodes, and an edit those that it splits.
    var fillBytes: Int { bodyBytesMax * 9 / 10 }

    /// Bytes of a key: an encoded key of 16 KiB with a document's id.
    package static let keyBytesMax = 20 << 10

    static let headerBytes = 8
    static let trailerBytes = 6
    static let restartInterval = 16
    /// Entries after a restart before an inserted entry becomes one.
    static let restartIntervalMax = 24
    /// Restart offsets have 16 bits.
    static let bodyBytesLimit = 65_535
    /// Far more than a tree of 2^64 rows has.
    static let heightMax = 60
}

/// The kind of a node's entries.
package enum EntryKind: UInt8, Sendable {
    /// The main tree: row key → vBucket, value.
    case row = 1
    /// The back tree: vBucket and document id → the rows that the document emitted.
    case document = 2
    /// An inner node of either tree.
    case child = 3
}
