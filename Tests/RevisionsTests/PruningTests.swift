import Bytes
import Revisions
import SyncWire
import Testing

@Suite struct PruningTests {
    private func names(_ tree: RevisionTree) -> Set<String> {
        Set(tree.revisions.map { node in "\(node.parent.map { "\($0) " } ?? "")\(node.id)" })
    }

    @Test func branchKeepsItsNewestRevisions() {
        var tree = RevisionTree("1-a 2-b 3-c 4-d 5-e")
        #expect(tree.prune(limit: 3).count == 2)
        #expect(names(tree) == ["3-c", "3-c 4-d", "4-d 5-e"])
        #expect(tree.prune(limit: 3).count == 0)
    }

    @Test func ancestorStaysWhileAnyLeafIsNear() {
        var tree = RevisionTree("1-a 2-b 3-c 4-d 5-e", "1-a 2-b 3-x")
        #expect(tree.prune(limit: 3).count == 0)
        #expect(tree.prune(limit: 2).count == 2)
        #expect(names(tree) == ["2-b", "4-d", "4-d 5-e", "2-b 3-x"])
    }

    @Test func outdatedTombstoneKeepsItsIdOnly() {
        let live = (1...9).map { "\($0)-a" }.joined(separator: " ")
        var tree = RevisionTree(live, "1-a 2-t 3-t!", "1-a 2-a 3-a 4-u 5-u 6-u!")
        // 3 < 9 - 4, 6 > 9 - 4.
        let pruned = tree.prune(limit: 4)
        #expect(pruned.outdatedLeaves == revs("3-t"))
        #expect(tree.leafNames == ["9-a", "6-u!", "3-t!"])
        #expect(tree[rev("3-t")]?.parent == nil)
        #expect(tree.ancestry(of: rev("6-u")) == revs("6-u", "5-u", "4-u", "3-a"))
        // So a device that offers the tombstone again is not asked for it.
        #expect(tree.difference(to: revs("3-t")).missing.isEmpty)
    }

    @Test func tombstonesStayIfNoBranchIsLive() {
        let dead = (1...9).map { "\($0)-a" }.joined(separator: " ") + "!"
        var tree = RevisionTree(dead, "1-a 2-t 3-t!")
        #expect(tree.prune(limit: 2).outdatedLeaves.isEmpty)
        #expect(tree.leafNames == ["9-a!", "3-t!"])
        #expect(tree[rev("3-t")]?.parent == rev("2-t"))
    }

    @Test func dialectOf14RemovesGenerationsFarBelowTheLiveLeaves() {
        let live = (1...5).map { "\($0)-a" }.joined(separator: " ")
        var tree = RevisionTree(live, "1-a 2-t!")
        var other = tree
        let pruned = tree.prune(limit: 4, .first)
        #expect(pruned.count == 1 && pruned.outdatedLeaves.isEmpty)
        #expect(names(tree) == ["2-a", "2-a 3-a", "3-a 4-a", "4-a 5-a", "2-t"])
        #expect(tree[rev("2-t")]?.parent == nil)
        #expect(other.prune(limit: 4, .third).count == 0)
        // A low live leaf keeps generations, but not those far from all leaves.
        var branched = RevisionTree(live, "1-x")
        #expect(branched.prune(limit: 3, .first).count == 2)
        #expect(branched.leafNames == ["5-a", "1-x"])
    }

    @Test func dialectOf14ComparesWithTheHighestTombstoneIfNoBranchIsLive() {
        let dead = (1...9).map { "\($0)-a" }.joined(separator: " ") + "!"
        var tree = RevisionTree(dead, "1-a 2-t 3-t!")
        let pruned = tree.prune(limit: 2, .first)
        #expect(pruned.outdatedLeaves == revs("3-t"))
        #expect(tree.ancestry(of: rev("9-a")) == revs("9-a", "8-a"))
        #expect(tree.ancestry(of: rev("3-t")) == revs("3-t"))
    }

    /// Random trees: leaves survive, every kept path is a part of the path before, limits hold.
    @Test func pruningRemovesNoLeafAndOnlyDistantAncestors() throws {
        for seed in UInt64(1)...60 {
            var random = SeededRandom(seed: seed)
            let tree = RandomTree(seed: seed, count: 40).tree
            let limit = Int(random.next() % 12) + 1
            var pruned = tree
            let result = pruned.prune(limit: limit)
            try #require(pruned.leaves.map(\.id) == tree.leaves.map(\.id), "seed \(seed)")
            try #require(pruned.winner?.id == tree.winner?.id, "seed \(seed)")
            try #require(pruned.count + result.count == tree.count, "seed \(seed)")
            for leaf in pruned.leaves {
                let path = pruned.ancestry(of: leaf.id)
                let isPrefix = tree.ancestry(of: leaf.id).starts(with: path)
                try #require(isPrefix, "seed \(seed)")
                let isCut = result.outdatedLeaves.contains(leaf.id)
                let full = min(tree.ancestry(of: leaf.id).count, limit)
                try #require(isCut ? path.count >= 1 : path.count >= full, "seed \(seed)")
            }
            let depths = pruned.revisions.map { node in
                pruned.leaves.compactMap { pruned.ancestry(of: $0.id).firstIndex(of: node.id) }
                    .min()
            }
            try #require(depths.allSatisfy { $0 ?? .max < limit }, "seed \(seed)")
            try #require(try RevisionTree(decoding: pruned.encoded) == pruned, "seed \(seed)")
            var again = pruned
            try #require(again.prune(limit: limit).count == 0, "seed \(seed)")
        }
    }
}
