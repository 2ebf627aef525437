package import Bytes
internal import SyncWire

/// The encoding of a tree.
///
/// A node is a byte that says what it shares with the node before it, what differs, and the packed
/// digest. So a revision that replaces the one before it has a byte and its digest.
extension RevisionTree: CodedFields {
    /// Properties that a node shares with the one before it, beside `TreeNode.Flags`.
    private struct Shared: OptionSet {
        let rawValue: UInt8

        static let deleted = Shared(rawValue: 1)
        static let hexadecimal = Shared(rawValue: 2)
        /// The node before is the parent, and one generation lower.
        static let parent = Shared(rawValue: 4)
        static let channels = Shared(rawValue: 8)
        /// The digest has sixteen bytes, as an MD5.
        static let length = Shared(rawValue: 16)
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        let written = self
        var read = RevisionTree()
        var nodes = nodes
        let blank = TreeNode()
        try coder.list(&nodes, "revisions", blank: blank) { coder, node throws(CodingFailure) in
            var digest = written.isEmpty ? [] : written.digest(of: node).bytes
            try read.code(&node, &digest, with: &coder)
            let isHexadecimal = node.flags.contains(.hexadecimal)
            // Text that is hexadecimal is packed, whatever the bytes say: look-ups rely on it.
            let packed = PackedDigest(isHexadecimal: isHexadecimal, bytes: digest)
            read.append(node, isHexadecimal ? packed : PackedDigest(digest))
        }
        try coder.require(read.count <= RevisionTree.countMax, "revisions")
        self = read
    }

    /// Codes a node that follows on the nodes of this tree, and its packed digest.
    private func code(
        _ node: inout TreeNode,
        _ digest: inout [UInt8],
        with coder: inout some Coder
    ) throws(CodingFailure) {
        let shared = try codeForm(of: &node, digest, &coder)
        if shared.contains(.parent), let last = nodes.last {
            node.parent = Int32(nodes.count - 1)
            node.generation = last.generation + 1
        } else {
            try codePlace(of: &node, &coder)
        }
        if shared.contains(.channels) {
            node.channelSet = nodes.last?.channelSet ?? 0
        } else {
            try coder.field(&node.channelSet, "channels of a revision")
        }
        var length = UInt8(shared.contains(.length) ? TreeNode.bytesInline : digest.count)
        if !shared.contains(.length) { try coder.field(&length, "length of a digest") }
        let textLength = Int(length) * (shared.contains(.hexadecimal) ? 2 : 1)
        try coder.require(1...RevisionID.bytesMax ~= textLength, "length of a digest")
        try coder.bytes(&digest, count: Int(length), "digest")
    }

    /// Codes what a node shares with the one before it, and its flags.
    private func codeForm(
        of node: inout TreeNode,
        _ digest: [UInt8],
        _ coder: inout some Coder
    ) throws(CodingFailure) -> Shared {
        let last = nodes.last
        var shared = Shared(rawValue: node.flags.rawValue)
        if let last, Int(node.parent) == nodes.count - 1, node.generation == last.generation &+ 1 {
            shared.insert(.parent)
        }
        if node.channelSet == last?.channelSet ?? 0 { shared.insert(.channels) }
        if digest.count == TreeNode.bytesInline { shared.insert(.length) }
        var bits = shared.rawValue
        try coder.field(&bits, "form of a revision")
        shared = Shared(rawValue: bits)
        let mayFollow = last.map { $0.generation < Int.max } ?? false
        try coder.require(bits < 32 && (mayFollow || bits & 4 == 0), "form of a revision")
        node.flags = TreeNode.Flags(rawValue: bits & 3)
        return shared
    }

    /// Codes the parent and the generation of a node that does not follow on the one before it.
    private func codePlace(
        of node: inout TreeNode,
        _ coder: inout some Coder
    ) throws(CodingFailure) {
        // 0 for no parent.
        var place = Int(node.parent) + 1
        try coder.field(&place, "parent")
        try coder.require(place <= nodes.count, "parent")
        node.parent = Int32(place - 1)
        try coder.field(&node.generation, "generation")
        let lowest = place == 0 ? 0 : nodes[place - 1].generation
        try coder.require(node.generation > lowest, "generation")
    }
}
