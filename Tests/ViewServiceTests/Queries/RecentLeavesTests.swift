import Bytes
import Indexing
import Testing
import ViewService
import Vocabulary

/// The leaves that short queries of an index share.
@Suite struct RecentLeavesTests {
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

        /// The leaves, by number.
        var leaves: [Node] {
            get throws {
                let ids = bodies.keys.sorted { $0.value < $1.value }
                return try ids.map { try node($0) }.filter(\.isLeaf)
            }
        }

        var inner: [Node] {
            get throws { try bodies.keys.map { try node($0) }.filter { !$0.isLeaf } }
        }

        func node(_ id: IndexNodeID) throws(IndexError) -> Node {
            guard let body = bodies[id] else { throw .damaged(id, "missing") }
            return try Node(id, bytes: body)
        }

        func bigValue(_ id: IndexValueID) throws(IndexError) -> [UInt8] {
            throw .unreadable("missing")
        }
    }

    @Test func onlyTheKeptVersionOfALeafIsFound() throws {
        let (store, kept) = (Store(), RecentLeaves())
        try store.put(0..<10, "first")
        let old = try #require(try store.leaves.first)
        #expect(kept.node(old.id, version: old.version) == nil)
        kept.keep(old)
        #expect(kept.node(old.id, version: old.version) === old)
        try store.put([5], "other")
        let new = try #require(try store.leaves.first)
        #expect(new.id == old.id && new.version != old.version)
        #expect(kept.node(new.id, version: new.version) == nil)
        kept.keep(new)
        #expect(kept.node(new.id, version: new.version) === new)
        #expect(kept.node(old.id, version: old.version) == nil)
        #expect(kept.memoryBytes == new.memoryBytes)
    }

    @Test func innerNodesAreNotKept() throws {
        let (store, kept) = (Store(), RecentLeaves())
        try store.put(0..<1_000, "value")
        let inner = try store.inner
        #expect(!inner.isEmpty)
        for node in inner { kept.keep(node) }
        #expect(kept.memoryBytes == 0)
    }

    @Test func leafThatIsReadAgainOutlivesTheOthers() throws {
        let store = Store()
        try store.put(0..<4_000, String(repeating: "value", count: 80))
        let leaves = try store.leaves
        let most = try #require(leaves.map(\.memoryBytes).max())
        #expect(leaves.count > 50)
        let kept = RecentLeaves(bytesMax: 8 * most)
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

extension Node {
    fileprivate convenience init(_ id: IndexNodeID, bytes: [UInt8]) throws(IndexError) {
        let body = ByteWriter()
        body.append(bytes)
        try self.init(id, body: body.view, format: .standard)
        withExtendedLifetime(body) {}
    }
}
