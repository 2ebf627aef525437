import Bytes
import Indexing
import TestSupport
import Testing
import Vocabulary

@Suite struct WalkTests {
    static func model(_ count: Int, nodeBytes: Int, seed: UInt64) throws -> TreeModel {
        var random = SeededRandom(seed: seed)
        var model = TreeModel(NodeFormat(bodyBytesMax: nodeBytes))
        for _ in 0..<count { model.entries[random.key(longest: 50)] = random.entry(longest: 200) }
        model.load()
        let changes = model.sortedKeys.enumerated().filter { $0.offset % 3 == 0 }
        try model.apply(
            changes.map { ($0.element, $0.offset % 2 == 0 ? nil : random.entry(longest: 200)) }
        )
        try model.apply(
            (0..<count / 3).map { _ in (random.key(longest: 50), random.entry(longest: 200)) }
        )
        return model
    }

    /// Bounds at keys, between keys, before the first and after the last.
    static func range(_ keys: [[UInt8]], _ random: inout SeededRandom) -> KeyRange {
        func bound() -> [UInt8] {
            switch random.below(5) {
            case 0: return random.key(longest: 20)
            case 1 where !keys.isEmpty: return keys[random.below(keys.count)] + [0]
            case 2: return []
            default: return keys.isEmpty ? [5] : keys[random.below(keys.count)]
            }
        }
        return KeyRange(start: bound(), end: random.below(6) == 0 ? nil : bound())
    }

    static func mask(_ random: inout SeededRandom) -> VBucketMask {
        let bound = random.below(1_100)
        return VBucketMask((0..<1_024).filter { $0 < bound }.map { VBucketID(UInt16($0)) })
    }

    static func matches(_ key: [UInt8], _ range: KeyRange) -> Bool {
        if key.lexicographicallyPrecedes(range.start) { return false }
        return range.end.map { key.lexicographicallyPrecedes($0) } ?? true
    }

    @Test(arguments: [
        (256, 700, 11), (512, 300, 12), (4_036, 3_000, 13), (256, 5, 14), (256, 0, 15),
    ])
    func rangeWalkAndCountEqualPlainEvaluation(nodeBytes: Int, count: Int, seed: UInt64) throws {
        let model = try Self.model(count, nodeBytes: nodeBytes, seed: seed)
        try #require(try model.difference() == nil)
        var random = SeededRandom(seed: seed)
        let keys = model.sortedKeys
        for round in 0..<400 {
            let range = Self.range(keys, &random)
            let isDescending = random.below(2) == 0
            var expected = keys.filter { Self.matches($0, range) }
            let found = try model.tree.count(range)
            try #require(found == UInt64(expected.count), "seed \(seed), round \(round)")
            if isDescending { expected.reverse() }
            let walk = RangeWalk(model.tree, range, descending: isDescending)
            var walked: [[UInt8]] = []
            while let entry = try walk.next() {
                walked.append(entry.key.bytes)
                let value = try model.store.value(entry.value)
                try #require(value == model.entries[entry.key.bytes]?.value)
            }
            try #require(walked == expected, "seed \(seed), round \(round)")
            try #require(try walk.next() == nil)
        }
    }

    @Test func countOfARangeReadsAFewNodesOfEachLevel() throws {
        let model = try Self.model(5_000, nodeBytes: 512, seed: 16)
        let keys = model.sortedKeys
        let range = KeyRange(start: keys[100], end: keys[keys.count - 100])
        let before = model.store.reads
        _ = try model.tree.count(range)
        #expect(model.store.reads - before <= 2 * model.root.height)
    }
}
