import Bytes
import Indexing
import TestSupport
import Vocabulary

/// The nodes and big values of an index in memory, as the adapter of its file stores them.
final class MemoryStore: NodeSource {
    let format: NodeFormat
    var bodies: [IndexNodeID: [UInt8]] = [:]
    var bigValues: [IndexValueID: [UInt8]] = [:]
    private(set) var reads = 0

    init(_ format: NodeFormat) {
        self.format = format
    }

    func node(_ id: IndexNodeID) throws(IndexError) -> IndexNode {
        reads += 1
        guard let body = bodies[id] else { throw .damaged(id, "missing") }
        return try MemoryStore.node(id, body, format)
    }

    static func node(
        _ id: IndexNodeID,
        _ body: [UInt8],
        _ format: NodeFormat
    ) throws(IndexError) -> IndexNode {
        let result = body.withUnsafeBytes { bytes in
            Result { () throws(IndexError) -> IndexNode in
                try IndexNode(id, body: ByteView(bytes), format: format)
            }
        }
        return try result.get()
    }

    func bigValue(_ id: IndexValueID) throws(IndexError) -> [UInt8] {
        guard let value = bigValues[id] else { throw .unreadable("big value is missing") }
        return value
    }

    func store(_ writes: NodeWriteList) {
        writes.visit { bodies[$0.id] = $0.body.bytes }
    }

    func store(_ result: TreeEditResult, of batch: EditBatch) {
        store(result.writes)
        for id in result.freed { bodies[id] = nil }
        for id in result.bigValuesFreed { bigValues[id] = nil }
        for write in result.bigValues { bigValues[write.id] = batch.bigValue(write).bytes }
    }

    func value(_ value: EntryValue) throws(IndexError) -> [UInt8] {
        switch value {
        case .inline(let view): return view.bytes
        case .big(let id, _): return try bigValue(id)
        }
    }
}

struct ModelEntry: Equatable {
    var vBucket: UInt16
    var value: [UInt8]
}

/// A tree with the sorted array that it must equal.
struct TreeModel {
    let store: MemoryStore
    let kind: EntryKind
    var root = TreeRoot.empty
    var numbers = TreeNumbers()
    var entries: [[UInt8]: ModelEntry] = [:]

    init(_ format: NodeFormat, kind: EntryKind = .row) {
        store = MemoryStore(format)
        self.kind = kind
    }

    var tree: Tree { Tree(root, of: kind, from: store, format: store.format) }

    var sortedKeys: [[UInt8]] { entries.keys.sorted { $0.lexicographicallyPrecedes($1) } }

    /// Applies operations to the tree and to the array.
    @discardableResult
    mutating func apply(
        _ operations: [(key: [UInt8], entry: ModelEntry?)]
    ) throws -> TreeEditResult {
        let batch = EditBatch()
        for (key, entry) in operations {
            key.withView { view in
                if let entry {
                    entry.value.withView {
                        batch.put(key: view, vBucket: VBucketID(entry.vBucket), value: $0)
                    }
                } else {
                    batch.remove(key: view)
                }
            }
            entries[key] = entry
        }
        let result = try TreeEdit.apply(batch, to: tree, numbers: numbers)
        store.store(result, of: batch)
        root = result.root
        numbers = result.numbers
        return result
    }

    /// Builds the tree from the array.
    mutating func load() {
        let builder = BulkBuilder(of: kind, format: store.format, numbers: numbers)
        for key in sortedKeys {
            guard let entry = entries[key] else { continue }
            let id = key.withView { view in
                entry.value.withView {
                    builder.append(key: view, vBucket: VBucketID(entry.vBucket), value: $0)
                }
            }
            if let id { store.bigValues[id] = entry.value }
            if builder.writes.byteCount > 10_000 {
                store.store(builder.writes)
                builder.writes.removeAll()
            }
        }
        root = builder.finish()
        store.store(builder.writes)
        numbers = builder.numbers
    }

    /// What differs between the tree and the array; nil if nothing does.
    func difference() throws -> String? {
        let check = TreeCheck.run(tree)
        if let first = check.violations.first { return first }
        if check.nodes != Set(store.bodies.keys) { return "stored nodes are not those of the tree" }
        if check.bigValues != Set(store.bigValues.keys) { return "big values" }
        let keys = sortedKeys
        if root.rows != UInt64(keys.count) { return "rows" }
        let walk = RangeWalk(tree)
        var index = 0
        while let entry = try walk.next() {
            guard index < keys.count, entry.key.bytes == keys[index] else {
                return "key \(index) of \(keys.count)"
            }
            let value = try store.value(entry.value)
            let expected = entries[keys[index]]
            if expected?.value != value { return "value \(index)" }
            if kind == .row, expected?.vBucket != entry.vBucket.number { return "vBucket \(index)" }
            index += 1
        }
        return index == keys.count ? nil : "the walk ended at \(index) of \(keys.count)"
    }
}

extension Array where Element == UInt8 {
    func withView<Result>(_ body: (ByteView) throws -> Result) rethrows -> Result {
        try withUnsafeBytes { try body(ByteView($0)) }
    }
}

extension SeededRandom {
    /// A key like those of views: few beginnings, so that much is shared.
    mutating func key(longest: Int) -> [UInt8] {
        var key: [UInt8] = []
        for _ in 0..<below(4) { key.append(UInt8(below(3)) &* 127) }
        if below(40) == 0 { key += [UInt8](repeating: UInt8(below(256)), count: below(longest)) }
        for _ in 0...below(6) { key.append(UInt8(below(256))) }
        return key
    }

    mutating func entry(longest: Int) -> ModelEntry {
        let length = below(30) == 0 ? below(longest) : below(12)
        return ModelEntry(
            vBucket: UInt16(below(1_024)),
            value: (0..<length).map { _ in UInt8(truncatingIfNeeded: next()) }
        )
    }
}
