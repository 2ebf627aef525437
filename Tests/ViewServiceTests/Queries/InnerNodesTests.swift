import Bytes
import Indexing
import Testing
import ViewService
import Vocabulary

/// The inner nodes that queries of an index share.
@Suite struct InnerNodesTests {
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

        var rootNode: Node { get throws { try node(root.id) } }

        /// The nodes of all levels.
        var all: [Node] { get throws { try bodies.keys.map { try node($0) } } }

        func node(_ id: IndexNodeID) throws(IndexError) -> Node {
            guard let body = bodies[id] else { throw .damaged(id, "missing") }
            return try Node(id, bytes: body)
        }

        func bigValue(_ id: IndexValueID) throws(IndexError) -> [UInt8] {
            throw .unreadable("missing")
        }
    }

    @Test func onlyTheKeptVersionOfANodeIsFound() throws {
        let (store, kept) = (Store(), InnerNodes())
        try store.put(0..<1_000, "first")
        let old = try store.rootNode
        #expect(!old.isLeaf)
        kept.keep(old)
        #expect(kept.node(old.id, version: old.version) === old)
        try store.put([500], "other")
        let new = try store.rootNode
        #expect(new.id == old.id && new.version != old.version)
        #expect(kept.node(new.id, version: new.version) == nil)
        kept.keep(new)
        #expect(kept.node(new.id, version: new.version) === new)
        #expect(kept.node(old.id, version: old.version) == nil)
        #expect(kept.memoryBytes == new.memoryBytes)
    }

    @Test func leavesAreNotKept() throws {
        let (store, kept) = (Store(), InnerNodes())
        try store.put(0..<1_000, "value")
        for node in try store.all { kept.keep(node) }
        for node in try store.all {
            #expect((kept.node(node.id, version: node.version) == nil) == node.isLeaf)
        }
    }

    @Test func keptNodesAreBounded() throws {
        let store = Store()
        try store.put(0..<40_000, String(repeating: "value", count: 80))
        let inner = try store.all.filter { !$0.isLeaf }
        let most = inner.map(\.memoryBytes).max() ?? 0
        #expect(inner.count > 3)
        let kept = InnerNodes(bytesMax: 2 * most)
        for node in inner {
            kept.keep(node)
            #expect(kept.node(node.id, version: node.version) === node)
            #expect(kept.memoryBytes <= 2 * most)
        }
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
