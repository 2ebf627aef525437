import Bytes
import Indexing
import JSON
import TestSupport
import Vocabulary

/// One change of a document, with the rows that it emits.
struct MappedChange {
    let vBucket: VBucketID
    let id: [UInt8]
    let seqno: UInt64
    /// Empty for a deletion, and for a document that emits nothing.
    let rows: [(key: [UInt8], value: [UInt8])]
}

/// The two trees of an index in memory, built in either way.
final class MemoryIndex {
    let store: MemoryStore
    var main = TreeRoot.empty
    var back = TreeRoot.empty
    var numbers = TreeNumbers()
    var rowCounts: [VBucketID: Int] = [:]

    init(_ format: NodeFormat = .standard) { store = MemoryStore(format) }

    var rows: Tree { Tree(main, of: .row, from: store, format: store.format) }
    var documents: Tree { Tree(back, of: .document, from: store, format: store.format) }

    /// Applies changes as a commit does; a document occurs once.
    func apply(_ changes: [MappedChange]) throws {
        let update = IndexUpdate(documents)
        for change in changes {
            change.id.withView { update.begin(change.vBucket, id: $0) }
            for row in change.rows {
                row.key.withView { key in row.value.withView { update.add(sortKey: key, value: $0) }
                }
            }
            try update.end()
        }
        main = try edit(rows, update.rows)
        back = try edit(documents, update.documents)
        for (vBucket, gain) in update.gains { rowCounts[vBucket, default: 0] += gain }
    }

    private func edit(_ tree: Tree, _ batch: EditBatch) throws -> TreeRoot {
        let result = try TreeEdit.apply(batch, to: tree, numbers: numbers)
        store.store(result, of: batch)
        numbers = result.numbers
        return result.root
    }

    /// What a tree has, and everything that is wrong with both.
    func entries(_ tree: Tree) throws -> [[[UInt8]]] {
        var found: [[[UInt8]]] = []
        let walk = RangeWalk(tree)
        while let entry = try walk.next() {
            let vBucket = entry.vBucket.number
            let bytes = [UInt8(vBucket >> 8), UInt8(vBucket & 255)]
            found.append([entry.key.bytes, bytes, try store.value(entry.value)])
        }
        return found
    }

    func violations() throws -> [String] {
        let trees = [TreeCheck.run(rows), TreeCheck.run(documents)]
        var found = trees.flatMap(\.violations)
        let nodes = trees[0].nodes.union(trees[1].nodes)
        if nodes != Set(store.bodies.keys) {
            found.append("stored nodes are not those of the trees")
        }
        let values = trees[0].bigValues.union(trees[1].bigValues)
        if values != Set(store.bigValues.keys) {
            found.append("stored values are not those in use")
        }
        found += try IndexCheck.violations(main: rows, back: documents) { row, id, key in
            RowKey.append(sortKey: row.sortKey, id: id, ordinal: row.number, to: key)
        }
        return found
    }
}

/// A load with the runs that it has stored, as the service stores them.
final class LoadModel {
    /// Of a stored chunk.
    private struct Name: Hashable {
        let kind: EntryKind
        let run: UInt32
        let number: UInt32
    }

    let format: NodeFormat
    let limits: BulkLoad.Limits
    private(set) var load: BulkLoad
    private var chunks: [Name: [UInt8]] = [:]
    private(set) var storedRuns: UInt32 = 0
    private var storedPositions: [UInt8] = []
    private(set) var now: UInt64 = 0

    init(_ limits: BulkLoad.Limits, _ format: NodeFormat = .standard) {
        self.limits = limits
        self.format = format
        load = BulkLoad(now: 0, limits: limits)
    }

    /// Adds a batch in its order; several versions of a document may be in it.
    func add(_ changes: [MappedChange]) {
        now += 1
        for change in changes {
            change.id.withView { load.begin(change.vBucket, id: $0, now: now) }
            for row in change.rows {
                row.key.withView { key in row.value.withView { load.add(sortKey: key, value: $0) } }
            }
            load.end()
        }
        for change in changes {
            let seqno = Seqno(change.seqno)
            let position = IndexPosition(
                uuid: VBucketUUID(7),
                seqno: seqno,
                snapshotStart: seqno,
                snapshotEnd: seqno
            )
            load.move(change.vBucket, to: position, now: now)
        }
        load.endBatch(now: now)
    }

    /// Stores the runs that are due; returns how many.
    @discardableResult
    func store() -> Int {
        var stored = 0
        while let run = load.runToStore(now: now) {
            let number = load.storedRuns
            run.rows.forEachChunk {
                chunks[Name(kind: .row, run: number, number: $0)] = $1.bytes
            }
            run.documents.forEachChunk {
                chunks[Name(kind: .document, run: number, number: $0)] = $1.bytes
            }
            let text = ByteWriter()
            LoadPositions.append(load.positions(after: run), to: text)
            storedPositions = text.bytes
            load.stored()
            storedRuns = load.storedRuns
            stored += 1
        }
        return stored
    }

    /// Loses what is not stored; returns the positions to read from.
    func crash() -> [VBucketID: IndexPosition] {
        let positions = storedPositions.withView { LoadPositions.decode($0) } ?? [:]
        load = BulkLoad(storedRuns: storedRuns, positions: positions, now: now, limits: limits)
        return positions
    }

    /// Makes the trees.
    func finish(bytesMax: Int) throws -> MemoryIndex {
        let index = MemoryIndex(format)
        let merge = load.merge(index.numbers, format: format)
        while !merge.isComplete {
            try merge.step(
                bytesMax: bytesMax,
                read: { (chunk, output) throws(IndexError) in
                    let name = Name(kind: chunk.kind, run: chunk.run, number: chunk.number)
                    guard let body = chunks[name] else { return false }
                    output.append(body)
                    return true
                },
                storeValue: { index.store.bigValues[$0] = $1.bytes }
            )
            index.store.store(merge.writes)
            merge.writes.removeAll()
        }
        index.main = merge.rows
        index.back = merge.documents
        index.numbers = merge.numbers
        index.rowCounts = merge.rowCounts.mapValues { Int($0) }
        return index
    }
}

/// Random documents of a few vBuckets, with a history of edits and deletions.
struct RandomHistory {
    var random: SeededRandom
    let ids: Int
    let vBuckets: Int
    let longestValue: Int
    private(set) var changes: [MappedChange] = []
    private var seqnos: [VBucketID: UInt64] = [:]
    /// The place of the newest change of each document.
    private(set) var newest: [[UInt8]: Int] = [:]

    init(seed: UInt64, ids: Int, vBuckets: Int = 5, longestValue: Int = 40) {
        random = SeededRandom(seed: seed)
        self.ids = ids
        self.vBuckets = vBuckets
        self.longestValue = longestValue
    }

    mutating func change() {
        let number = random.below(ids)
        let id = Array("d\(number)".utf8)
        let vBucket = VBucketID(UInt16(number % vBuckets * 100))
        let seqno = seqnos[vBucket, default: 0] + 1
        seqnos[vBucket] = seqno
        // Few keys, so that documents emit a key again, and several times.
        let rows = (0..<random.below(5)).map { _ -> (key: [UInt8], value: [UInt8]) in
            let length = random.below(20) == 0 ? random.below(longestValue) : 0
            let padding = [UInt8](repeating: 0x20, count: length)
            return (Self.sortKey(random.below(30)), padding + Array("\(random.below(1_000))".utf8))
        }
        newest[id] = changes.count
        changes.append(MappedChange(vBucket: vBucket, id: id, seqno: seqno, rows: rows))
    }

    /// The sort key of a number, as `Collation` has it; every third ends in no zero.
    private static func sortKey(_ number: Int) -> [UInt8] {
        let value = number % 3 == 0 ? Double(number) + 0.1 : Double(number)
        let bits = value.bitPattern ^ 1 << 63
        return [0x20] + (0..<8).map { UInt8(truncatingIfNeeded: bits >> UInt64(56 - 8 * $0)) }
    }
}
