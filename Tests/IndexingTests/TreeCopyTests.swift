import Bytes
import Indexing
import TestSupport
import Testing
import Vocabulary

/// Copies of trees, which replace them.
@Suite struct TreeCopyTests {
    /// Node size, longest key, longest value, bytes of a step.
    static let cases: [(Int, Int, Int, Int)] = [
        (256, 40, 40, 1), (256, 2_000, 2_000, 500), (1_024, 300, 3_000, 4_000),
        (4_036, 100, 5_000, 100_000), (4_036, 100, 50, 1 << 20),
    ]

    /// Replaces the tree of a model by its copy; returns the number of steps.
    private func copy(_ model: inout TreeModel, bytesMax: Int) throws -> Int {
        let copy = TreeCopy(of: model.kind, format: model.store.format, numbers: model.numbers)
        let (nodes, values) = (Set(model.store.bodies.keys), Set(model.store.bigValues.keys))
        let store = model.store
        var steps = 1
        while try !copy.step(
            model.tree,
            bytesMax: bytesMax,
            storeValue: { store.bigValues[$0] = $1.bytes }
        ) {
            #expect(copy.root == nil)
            store.store(copy.writes)
            copy.writes.removeAll()
            steps += 1
        }
        store.store(copy.writes)
        model.root = try #require(copy.root)
        model.numbers = copy.numbers
        for id in nodes { store.bodies[id] = nil }
        for id in values { store.bigValues[id] = nil }
        return steps
    }

    @Test(arguments: cases)
    func copyHasTheEntriesInFewerNodesAndIsEditedLikeTheTree(
        nodeBytes: Int,
        longestKey: Int,
        longestValue: Int,
        bytesMax: Int
    ) throws {
        var random = SeededRandom(seed: UInt64(nodeBytes + bytesMax))
        for kind in [EntryKind.row, .document] {
            var model = TreeModel(NodeFormat(bodyBytesMax: nodeBytes), kind: kind)
            for round in 0..<12 {
                let operations = (0..<300).map { _ -> (key: [UInt8], entry: ModelEntry?) in
                    let isRemoval = random.below(10) < round % 3
                    return (
                        random.key(longest: longestKey),
                        isRemoval ? nil : random.entry(longest: longestValue)
                    )
                }
                try model.apply(operations)
                guard round % 3 == 2 else { continue }
                let before = TreeCheck.run(model.tree)
                let steps = try copy(&model, bytesMax: bytesMax)
                #expect(try model.difference() == nil)
                let after = TreeCheck.run(model.tree)
                #expect(after.nodes.count <= before.nodes.count)
                #expect(after.nodes.isDisjoint(with: before.nodes))
                #expect(bytesMax > 10_000 || steps > 1)
            }
        }
    }

    @Test func copyOfAnEmptyTreeIsEmpty() throws {
        var model = TreeModel(.standard)
        #expect(try copy(&model, bytesMax: 1) == 1)
        #expect(model.root == .empty)
        #expect(try model.difference() == nil)
    }
}
