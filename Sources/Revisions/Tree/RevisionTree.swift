package import SyncWire

/// The revisions of a document, each with its parent: the branches of its history.
///
/// A document mostly has one branch, and a store has millions of documents. So a revision is a node
/// of 32 bytes in one array, without a block of memory of its own; encoded, it has some 20 bytes,
/// and those that follow on each other 17 (`RevisionTree+Coding.swift`).
///
/// **Invariants**
/// - A parent precedes its children, and has a lower generation.
/// - No id occurs twice.
/// - The last node is the newest revision, in the order of writes.
/// - There are at most `countMax` nodes.
package struct RevisionTree: Hashable, Sendable {
    /// Far more than `revs_limit` of any branch; beyond it a document needs its conflicts resolved.
    package static let countMax = 16_384

    var nodes: [TreeNode] = []
    /// The digests of more than `TreeNode.bytesInline` bytes, one after the other.
    var longDigests: [UInt8] = []

    package init() {}

    package var count: Int { nodes.count }
    package var isEmpty: Bool { nodes.isEmpty }

    /// All revisions, in the order of writes.
    package var revisions: [RevisionNode] { nodes.indices.map { node(at: $0) } }

    package func contains(_ id: RevisionID) -> Bool { index(of: id) != nil }

    /// The revision of that id; nil if the tree does not have it.
    package subscript(id: RevisionID) -> RevisionNode? { index(of: id).map { node(at: $0) } }

    /// The revision that was added last; nil if there is none.
    package var newest: RevisionID? { nodes.isEmpty ? nil : id(at: nodes.count - 1) }

    // MARK: Leaves

    /// The revisions without children, the winner first.
    package var leaves: [RevisionNode] {
        unsortedLeaves.sorted { $0.wins(against: $1) }
    }

    /// The revision that a read without `rev` returns; nil if there is none.
    package var winner: RevisionNode? {
        nodes.count == 1 ? node(at: 0) : unsortedLeaves.min { $0.wins(against: $1) }
    }

    package func isLeaf(_ id: RevisionID) -> Bool {
        guard let index = index(of: id) else { return false }
        return !nodes.contains { $0.parent == index }
    }

    /// Whether more than one branch is live.
    package var hasConflict: Bool {
        nodes.count > 1 && zip(nodes, leafFlags).count { !$0.isDeleted && $1 } > 1
    }

    /// Whether there is more than one branch, live or deleted.
    package var isBranched: Bool { nodes.count > 1 && leafFlags.count { $0 } > 1 }

    private var unsortedLeaves: [RevisionNode] {
        let isLeaf = leafFlags
        return nodes.indices.filter { isLeaf[$0] }.map { node(at: $0) }
    }

    var leafFlags: [Bool] {
        var isLeaf = [Bool](repeating: true, count: nodes.count)
        for parent in nodes.lazy.compactMap(\.parentIndex) { isLeaf[parent] = false }
        return isLeaf
    }

    // MARK: Nodes

    func node(at index: Int) -> RevisionNode {
        let node = nodes[index]
        return RevisionNode(
            id(at: index),
            parent: node.parentIndex.map { id(at: $0) },
            isDeleted: node.isDeleted,
            channelSet: node.channelSet
        )
    }

    func id(at index: Int) -> RevisionID {
        RevisionID(generation: nodes[index].generation, digest: digest(of: nodes[index]).text)
    }

    func index(of id: RevisionID) -> Int? {
        let sought = SoughtRevision(id)
        return nodes.lastIndex { isNode($0, sought) }
    }

    /// The place of the first id in `history` that the tree has, in one pass over the tree; nil if it
    /// has none.
    ///
    /// - Precondition: No two ids have the same generation.
    func firstKnown(of history: [RevisionID]) -> Int? {
        if history.count == 1 { return contains(history[0]) ? 0 : nil }
        let sought = Dictionary(
            uniqueKeysWithValues: history.indices.map { place in
                (
                    history[place].generation,
                    (place: place, revision: SoughtRevision(history[place]))
                )
            }
        )
        return nodes.compactMap { node in
            guard let one = sought[node.generation], isNode(node, one.revision) else { return nil }
            return one.place
        }.min()
    }

    private func isNode(_ node: TreeNode, _ sought: SoughtRevision) -> Bool {
        guard node.generation == sought.node.generation, node.length == sought.node.length,
            node.flags.contains(.hexadecimal) == sought.digest.isHexadecimal
        else { return false }
        return node.isInline
            ? node.high == sought.node.high && node.low == sought.node.low
            : longDigests(of: node).elementsEqual(sought.digest.bytes)
    }

    func digest(of node: TreeNode) -> PackedDigest {
        PackedDigest(
            isHexadecimal: node.flags.contains(.hexadecimal),
            bytes: node.isInline ? node.inlineDigest : Array(longDigests(of: node))
        )
    }

    private func longDigests(of node: TreeNode) -> ArraySlice<UInt8> {
        longDigests[Int(node.high)...].prefix(Int(node.length))
    }

    /// Appends a revision.
    ///
    /// - Precondition: The tree does not have the id, and `parent` is the index of a revision of a
    ///   lower generation.
    mutating func append(_ id: RevisionID, parent: Int?, isDeleted: Bool, channelSet: UInt16 = 0) {
        precondition(
            parent.map { nodes[$0].generation < id.generation } ?? true,
            "a revision has a higher generation than its parent"
        )
        var node = TreeNode()
        node.generation = id.generation
        node.parent = parent.map(Int32.init) ?? TreeNode.noParent
        node.channelSet = channelSet
        if isDeleted { node.flags.insert(.deleted) }
        append(node, PackedDigest(id.digest))
    }

    /// Appends a node whose digest is set here.
    mutating func append(_ node: TreeNode, _ digest: PackedDigest) {
        var node = node
        if digest.bytes.count > TreeNode.bytesInline {
            node.setLength(of: digest)
            node.high = UInt64(longDigests.count)
            node.low = 0
            longDigests += digest.bytes
        } else {
            node.setInlineDigest(digest)
        }
        nodes.append(node)
    }
}

/// An id in the form that nodes are compared with.
private struct SoughtRevision {
    let digest: PackedDigest
    var node = TreeNode()

    init(_ id: RevisionID) {
        digest = PackedDigest(id.digest)
        node.generation = id.generation
        node.setInlineDigest(digest)
    }
}

extension TreeNode {
    var inlineDigest: [UInt8] {
        (0..<Int(length)).map { place in
            UInt8(truncatingIfNeeded: (place < 8 ? high : low) >> UInt64(56 - 8 * (place % 8)))
        }
    }

    /// Sets the first sixteen bytes of the digest, its length and its form.
    mutating func setInlineDigest(_ digest: PackedDigest) {
        setLength(of: digest)
        (high, low) = (0, 0)
        for (place, byte) in digest.bytes.prefix(TreeNode.bytesInline).enumerated() {
            let bits = UInt64(byte) << UInt64(56 - 8 * (place % 8))
            if place < 8 { high |= bits } else { low |= bits }
        }
    }

    mutating func setLength(of digest: PackedDigest) {
        length = UInt8(digest.bytes.count)
        if digest.isHexadecimal { flags.insert(.hexadecimal) } else { flags.remove(.hexadecimal) }
    }
}
