import Bytes
import Indexing
import Testing
import ViewService
import Vocabulary

/// The inner nodes and the leaves that queries of an index share.
@Suite struct KeptNodesTests {
    /// A tree of some levels in memory.
    private final class Store: NodeSource {
        private var bodies: [IndexNodeID: [UInt8]] = [:]
        private(set) var root = TreeRoot.empty
        private var numbers = TreeNumbers()

        func put(_ numbersOfKeys: some Sequence<Int>, _ value: String) throws {
            let batch = EditBatch()
            for number in numbersOfKeys {
                let (key, value) = (Array("key-\(1_000_000 + number)".utf8), Array(value.utf8))
                key.withUnsafeBytes { key in
                    value.withUnsafeBytes { value in
                        batch.put(key: ByteView(key), vBucket: VBucketID(0), value: ByteView(value))
                    }
                }
            }
            let tree = Tree(root, of: .row, from: self)
            let result = try TreeEdit.apply(batch, to: tree, numbers: numbers)
            result.writes.visit { bodies[$0.id] = $0.body.bytes }
            (root, numbers) = (result.root, result.numbers)
        }

        var rootNode: IndexNode { get throws { try node(root.id) } }

        /// The nodes of all levels, by number.
        var all: [IndexNode] {
            get throws { try bodies.keys.sorted { $0.value < $1.value }.map { try node($0) } }
        }

        var leaves: [IndexNode] { get throws { try all.filter(\.isLeaf) } }

        func node(_ id: IndexNodeID) throws(IndexError) -> IndexNode {
            guard let body = bodies[id] else { throw .damaged(id, "missing") }
            return try IndexNode(id, bytes: body)
        }

        func bigValue(_ id: IndexValueID) throws(IndexError) -> [UInt8] {
            throw .unreadable("missing")
        }
    }

    @Test func onlyTheKeptVersionOfAnInnerNodeIsFound() throws {
        let store = Store()
        try store.put(0..<1_000, "first")
        let old = try store.rootNode
        #expect(!old.isLeaf)
        try store.put([500], "other")
        try expectNewestVersionReplaces(old, try store.rootNode, in: KeptNodes(.innerNodes))
    }

    @Test func onlyTheKeptVersionOfALeafIsFound() throws {
        let store = Store()
        try store.put(0..<10, "first")
        let old = try #require(try store.leaves.first)
        try store.put([5], "other")
        let new = try #require(try store.leaves.first)
        try expectNewestVersionReplaces(old, new, in: KeptNodes(.recentLeaves))
    }

    private func expectNewestVersionReplaces(_ old: IndexNode, _ new: IndexNode, in kept: KeptNodes)
        throws
    {
        try #require(new.id == old.id && new.version != old.version)
        #expect(kept.node(old.id, version: old.version) == nil)
        kept.keep(old)
        #expect(kept.node(old.id, version: old.version) === old)
        #expect(kept.node(new.id, version: new.version) == nil)
        kept.keep(new)
        #expect(kept.node(new.id, version: new.version) === new)
        #expect(kept.node(old.id, version: old.version) == nil)
        #expect(kept.memoryBytes == new.memoryBytes)
    }

    @Test(arguments: [KeptNodes.Policy.innerNodes, .recentLeaves])
    func onlyTheNodesOfThePolicyAreKept(_ policy: KeptNodes.Policy) throws {
        let (store, kept) = (Store(), KeptNodes(policy))
        try store.put(0..<1_000, "value")
        let all = try store.all
        #expect(all.contains { $0.isLeaf } && all.contains { !$0.isLeaf })
        for node in all { kept.keep(node) }
        for node in all {
            let isKept = kept.node(node.id, version: node.version) != nil
            #expect(isKept == (node.isLeaf == (policy == .recentLeaves)))
        }
    }

    @Test func keptInnerNodesAreBounded() throws {
        let store = Store()
        try store.put(0..<40_000, String(repeating: "value", count: 80))
        let inner = try store.all.filter { !$0.isLeaf }
        let most = inner.map(\.memoryBytes).max() ?? 0
        #expect(inner.count > 3)
        let kept = KeptNodes(.innerNodes, bytesMax: 2 * most)
        for node in inner {
            kept.keep(node)
            #expect(kept.node(node.id, version: node.version) === node)
            #expect(kept.memoryBytes <= 2 * most)
        }
    }

    @Test func nodeBeyondTheBoundIsNotKept() throws {
        let store = Store()
        try store.put(0..<1_000, "value")
        let (inner, leaf) = (try store.rootNode, try #require(try store.leaves.first))
        let innerNodes = KeptNodes(.innerNodes, bytesMax: inner.memoryBytes - 1)
        innerNodes.keep(inner)
        #expect(innerNodes.memoryBytes == 0)
        let leaves = KeptNodes(.recentLeaves, bytesMax: 2 * leaf.memoryBytes - 1)
        leaves.keep(leaf)
        #expect(leaves.memoryBytes == 0)
    }

    /// Unlike leaves, of which each generation has half of the bound.
    @Test func innerNodesFillTheWholeBound() throws {
        let store = Store()
        try store.put(0..<40_000, String(repeating: "value", count: 80))
        let inner = try store.all.filter { !$0.isLeaf }
        let kept = KeptNodes(.innerNodes, bytesMax: inner.reduce(0) { $0 + $1.memoryBytes })
        for node in inner { kept.keep(node) }
        for node in inner { #expect(kept.node(node.id, version: node.version) === node) }
    }

    @Test func leafThatIsReadAgainOutlivesTheOthers() throws {
        let store = Store()
        try store.put(0..<4_000, String(repeating: "value", count: 80))
        let leaves = try store.leaves
        let most = try #require(leaves.map(\.memoryBytes).max())
        #expect(leaves.count > 50)
        let kept = KeptNodes(.recentLeaves, bytesMax: 8 * most)
        let first = leaves[0]
        kept.keep(first)
        for leaf in leaves.dropFirst() {
            kept.keep(leaf)
            #expect(kept.node(leaf.id, version: leaf.version) === leaf)
            #expect(kept.node(first.id, version: first.version) === first)
            #expect(kept.memoryBytes <= 8 * most)
        }
        #expect(kept.node(leaves[1].id, version: leaves[1].version) == nil)
    }
}

extension IndexNode {
    fileprivate convenience init(_ id: IndexNodeID, bytes: [UInt8]) throws(IndexError) {
        let body = ByteWriter()
        body.append(bytes)
        try self.init(id, body: body.view, format: .standard)
        withExtendedLifetime(body) {}
    }
}
