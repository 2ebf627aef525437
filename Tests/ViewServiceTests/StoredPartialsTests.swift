import Bytes
import Foundation
import Indexing
import Persistence
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// The stored results of reductions on real files, while documents and slots change.
@Suite(.serialized) struct StoredPartialsTests {
    private let world = IndexWorld()
    private static let map = """
        function (doc, meta) {
          for (var i = 0; i < doc.n; i++) emit([doc.k, i, meta.id], doc.v + i);
        }
        """
    private static let custom = [0x61, 0x62].map { byte in
        SlotDefinition(
            signature: signature(UInt8(byte)),
            kind: .custom,
            source: "function (keys, values, rereduce) {}"
        )
    }

    private static func signature(_ byte: UInt8) -> IndexSignature {
        IndexSignature([UInt8](repeating: byte, count: IndexSignature.byteCount))
            ?? SlotDefinition.numeric.signature
    }

    private func put(_ id: Int, _ random: inout SeededRandom, rowsMax: Int) {
        let (rows, key) = (random.next() % UInt64(rowsMax), random.next() % 1_000)
        let value = random.next() % 5 == 0 ? "0.\(random.next() % 64)" : "\(random.next() % 99)"
        world.changes.put("d\(id)", "{\"n\":\(rows),\"k\":\(key),\"v\":\(value)}")
    }

    // MARK: What is stored

    /// Checks every stored result of a slot; nil if the file does not have the slot.
    private func check(_ index: ViewIndex, _ slot: SlotDefinition) throws -> SlotCheck? {
        try world.read(index) { reads, nodes, head throws(StorageError) in
            guard let partials = try StoredPartials.of(slot.signature, in: reads) else {
                return nil
            }
            return try Self.converted { () throws(IndexError) in
                let tree = nodes.tree(head.main, .row)
                guard slot.kind == .custom else {
                    return try SlotCheck.runNumeric(tree, partials)
                }
                return try SlotCheck.run(tree, partials) { (below, result) throws(IndexError) in
                    let expected = try Ends.reduce(
                        CustomReduce(below, KeyRange(), partials: None())
                    )
                    return expected == result.bytes
                }
            }
        }
    }

    private static func converted<Result>(
        _ body: () throws(IndexError) -> Result
    ) throws(StorageError) -> Result {
        do throws(IndexError) {
            return try body()
        } catch {
            throw StorageError(.failed, "\(error)")
        }
    }

    private func slots(_ index: ViewIndex) throws -> Set<String> {
        try world.read(index) { reads, _, _ throws(StorageError) in
            Set(try reads.slots().map(\.signature))
        }
    }

    private func main(_ index: ViewIndex) throws -> IndexRoot {
        try world.read(index) { _, _, head in head.main }
    }

    private func awaitFilled(_ index: ViewIndex) throws {
        try waitUntil("the numeric slot is filled") {
            try check(index, .numeric)?.missing == 0
        }
    }

    /// A whole reduction from stored results, whose new results are stored.
    private func query(_ index: ViewIndex, _ slot: SlotDefinition) throws -> [ComputedPartial] {
        try world.read(index) { reads, nodes, head throws(StorageError) in
            guard let partials = try StoredPartials.of(slot.signature, in: reads) else {
                return []
            }
            return try Self.converted { () throws(IndexError) in
                let tree = nodes.tree(head.main, .row)
                let reduce = CustomReduce(tree, KeyRange(), partials: partials)
                let result = try Ends.reduce(reduce)
                let expected = try Ends.reduce(CustomReduce(tree, KeyRange(), partials: None()))
                #expect(result == expected)
                return reduce.computed
            }
        }
    }

    @Test(arguments: [UInt64(71), 72])
    func storedResultsEqualTheirRowsWhileDocumentsAndSlotsChange(seed: UInt64) throws {
        defer { world.stop() }
        var random = SeededRandom(seed: seed)
        let index = try world.index(Self.map)
        for id in 0..<400 { put(id, &random, rowsMax: 60) }
        try world.awaitFresh(index)
        let all = [SlotDefinition.numeric] + Self.custom
        var computed: [(SlotDefinition, [ComputedPartial])] = []
        for round in 0..<40 {
            if random.next() % 3 == 0 {
                index.setSlots(all.filter { _ in random.next() % 3 > 0 })
            }
            for _ in 0..<random.next() % 60 {
                let id = Int(random.next() % 500)
                if random.next() % 4 == 0 {
                    world.changes.delete("d\(id)")
                } else {
                    put(id, &random, rowsMax: 60)
                }
            }
            if random.next() % 2 == 0 { try world.awaitFresh(index) }
            for slot in Self.custom { computed.append((slot, try query(index, slot))) }
            // Results come late, out of order, and of snapshots of long ago.
            computed.shuffle(using: &random)
            if let (slot, results) = computed.popLast() {
                index.store(results, slot: slot.signature)
            }
            for slot in all {
                let wrong = try check(index, slot)?.wrong ?? []
                try #require(wrong.isEmpty, "seed \(seed), round \(round), \(slot.kind)")
            }
        }
        index.setSlots([.numeric])
        try world.awaitFresh(index)
        try waitUntil("the other slots are removed") {
            try slots(index) == [SlotDefinition.numeric.signature.description]
        }
        try awaitFilled(index)
        #expect(try check(index, .numeric)?.wrong == [])
        try expectNoTableOfAFreedNode(index)
    }

    private func expectNoTableOfAFreedNode(_ index: ViewIndex) throws {
        try world.read(index) { reads, nodes, head throws(StorageError) in
            let known = TreeCheck.run(nodes.tree(head.main, .row)).nodes
            let table = ByteWriter()
            for slot in try reads.slots() {
                for number in 1..<head.nextNode.value {
                    let id = IndexNodeID(number)
                    if known.contains(id) { continue }
                    #expect(try !reads.reduction(slot.id, id, into: table), "\(id)")
                }
            }
        }
    }

    // MARK: What it costs

    @Test func sumOfARangeReadsAFewNodesOfEachLevelOnceTheNewSlotIsFilled() throws {
        defer { world.stop() }
        var random = SeededRandom(seed: 73)
        let index = try world.index(Self.map)
        for id in 0..<1_500 { put(id, &random, rowsMax: 100) }
        try world.awaitFresh(index)
        let before = try main(index)
        index.setSlots([.numeric])
        try awaitFilled(index)
        #expect(try main(index) == before)
        for id in 0..<50 { put(id, &random, rowsMax: 100) }
        try world.awaitFresh(index)
        try expectFewReads(index)
        // Nothing is filled in again after the index was opened.
        world.close(index)
        let second = try world.index(Self.map)
        put(7, &random, rowsMax: 100)
        try world.awaitFresh(second)
        try expectFewReads(second)
        second.setSlots([])
        try waitUntil("the slot is removed") { try slots(second).isEmpty }
    }

    private func expectFewReads(_ index: ViewIndex) throws {
        #expect(try check(index, .numeric)?.missing == 0)
        try world.read(index) { reads, nodes, head throws(StorageError) in
            let partials = try StoredPartials.of(SlotDefinition.numeric.signature, in: reads)
            let counted = CountedNodes(nodes)
            let tree = Tree(nodes.tree(head.main, .row).root, of: .row, from: counted)
            #expect(tree.root.height >= 3 && tree.root.rows > 60_000)
            try Self.converted { () throws(IndexError) in
                var keys: [[UInt8]] = []
                let walk = RangeWalk(tree)
                while let entry = try walk.next() { keys.append(entry.key.bytes) }
                let half = KeyRange(start: keys[keys.count / 4], end: keys[3 * keys.count / 4])
                counted.reads = 0
                let sum = try tree.reduceNumbers(half, partials: partials)
                #expect(counted.reads <= 4 * tree.root.height, "\(counted.reads)")
                counted.reads = 0
                let scanned = try tree.reduceNumbers(half, partials: nil)
                #expect(counted.reads > 100)
                #expect(sum.sum.value == scanned.sum.value && sum.count == scanned.count)
            }
        }
    }

    @Test func customResultsOfAQueryServeTheNextOne() throws {
        defer { world.stop() }
        var random = SeededRandom(seed: 74)
        let index = try world.index(Self.map)
        for id in 0..<300 { put(id, &random, rowsMax: 60) }
        try world.awaitFresh(index)
        let slot = Self.custom[0]
        index.setSlots([slot])
        try waitUntil("the slot is added") { try !slots(index).isEmpty }
        let computed = try query(index, slot)
        #expect(!computed.isEmpty)
        index.store(computed, slot: slot.signature)
        try waitUntil("the results are stored") { try check(index, slot)?.missing == 0 }
        #expect(try query(index, slot).isEmpty)
        world.changes.put("d1001", #"{"n":1,"k":5,"v":1}"#)
        try world.awaitFresh(index)
        let again = try query(index, slot)
        #expect(!again.isEmpty && again.count < 10)
    }
}

/// A tree without stored results.
private final class None: PartialSource {
    func partials(of node: IndexNodeID) throws(IndexError) -> PartialTable? { nil }
}

private final class CountedNodes: NodeSource {
    private let nodes: StoredNodes
    var reads = 0

    init(_ nodes: StoredNodes) { self.nodes = nodes }

    func node(_ id: IndexNodeID) throws(IndexError) -> IndexNode {
        reads += 1
        return try nodes.node(id)
    }

    func bigValue(_ id: IndexValueID) throws(IndexError) -> [UInt8] { try nodes.bigValue(id) }
}

/// A reduction that does not commute: the first key, the last value and the number of rows.
private enum Ends {
    static func reduce(_ reduce: CustomReduce) throws(IndexError) -> [UInt8]? {
        var result: [UInt8]?
        while true {
            switch try reduce.next() {
            case .paused: continue
            case .done: return result
            case .group(_, let found): result = found
            case .needs(let calls): reduce.supply(calls.map(value))
            }
        }
    }

    private static func value(of call: ReduceCall) -> [UInt8] {
        let last = call.count - 1
        guard call.isRereduce else {
            return text(call.key(0).hex, call.value(last).text, call.count)
        }
        let parts = (0...last).map { call.value($0).text.split(separator: "|") }
        let count = parts.reduce(0) { $0 + (Int($1[2]) ?? 0) }
        return text(String(parts[0][0]), String(parts[last][1]), count)
    }

    private static func text(_ first: String, _ last: String, _ count: Int) -> [UInt8] {
        Array("\(first)|\(last)|\(count)".utf8)
    }
}

extension ByteView {
    fileprivate var hex: String { bytes.map { String($0, radix: 16) }.joined(separator: ".") }
}
