import Bytes
import Revisions
import SyncWire
import Testing

@Suite struct RevisionTreeTests {
    @Test(arguments: [
        // Generation, then digest by bytes.
        (["1-a", "1-b"], "1-b"), (["1-a 2-b", "1-a 2-a"], "2-b"), (["1-z", "1-a 2-a"], "2-a"),
        (["1-a 9-z", "1-a 10-a"], "10-a"), (["1-ab", "1-b"], "1-b"), (["1-Z", "1-a"], "1-a"),
        // A live leaf before a deleted one of any generation.
        (["1-a 2-b! 3-c!", "1-a 2-a"], "2-a"), (["1-a 2-b!"], "2-b"),
        (["1-a 2-b!", "1-c 2-a!"], "2-b"),
        // A deleted revision in a branch does not end it.
        (["1-a 2-b! 3-c", "1-a 2-z"], "3-c"),
    ]) func winnerIsTheHighestLiveLeaf(branches: [String], winner: String) {
        var tree = RevisionTree()
        for branch in branches { tree = tree.merged(with: RevisionTree(branch)) }
        #expect(tree.winner?.id == rev(winner))
        #expect(tree.leaves.first?.id == rev(winner))
    }

    @Test func treeNamesLeavesAndConflicts() {
        let tree = RevisionTree("1-a 2-b 3-c", "1-a 2-d!", "1-a 2-b 3-e")
        #expect(tree.leafNames == ["3-e", "3-c", "2-d!"])
        #expect(tree.hasConflict && tree.isBranched)
        #expect(tree.isLeaf(rev("3-c")) && !tree.isLeaf(rev("2-b")) && !tree.isLeaf(rev("9-x")))
        #expect(tree.newest == rev("3-e"))
        let resolved = RevisionTree("1-a 2-b", "1-a 2-c 3-d!")
        #expect(!resolved.hasConflict && resolved.isBranched)
        #expect(RevisionTree().winner == nil && RevisionTree().leaves.isEmpty)
    }

    @Test(arguments: [
        "0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789ABCDEF", "abc", "ab", "zz",
        "0123456789abcdef0123456789abcdef01234567", String(repeating: "x", count: 240),
        String(repeating: "a", count: 240), "a-b", "\u{e9}",
    ]) func digestsOfAnyFormSurviveEncoding(digest: String) throws {
        let id = rev("7-\(digest)")
        let other = rev("7-\(digest)0")
        var tree = RevisionTree("6-\(digest) 7-\(digest)")
        #expect(tree.newest == id && tree.contains(id) && !tree.contains(other))
        tree.add(.init(parent: id, chain: revs("8-\(digest)")), isDeleted: true)
        let decoded = try RevisionTree(decoding: tree.encoded)
        #expect(decoded == tree)
        #expect(decoded.revisions.map(\.id) == revs("6-\(digest)", "7-\(digest)", "8-\(digest)"))
    }

    @Test func digestTextAndItsHexadecimalAreDifferentRevisions() {
        let tree = RevisionTree("1-6162")
        #expect(tree.contains(rev("1-6162")) && !tree.contains(rev("1-ab")))
    }

    @Test func encodedRevisionNeedsAtMost20Bytes() {
        let digest = "fc5dde8cea54343d97c45c8d25ecf83f"
        #expect(RevisionTree("1-\(digest)").encoded.count == 20)
        #expect(RevisionTree("1-\(digest) 2-\(digest) 3-\(digest)").encoded.count == 20 + 2 * 17)
    }

    // MARK: Histories

    @Test(
        arguments: [
            ("4-d", Int.max, [], ["4-d", "3-c", "2-b", "1-a"]), ("4-d", 2, [], ["4-d", "3-c"]),
            ("4-d", 0, [], []), ("4-d", 9, ["2-b", "1-a"], ["4-d", "3-c", "2-b"]),
            // A known ancestor beyond the limit: without it the reader could not connect the revision.
            ("4-d", 1, ["2-b"], ["4-d", "3-c", "2-b"]), ("4-d", 9, ["4-d"], ["4-d"]),
            // A revision of another branch and an unknown one cut nothing.
            ("4-d", 9, ["3-x", "2-q"], ["4-d", "3-c", "2-b", "1-a"]), ("9-x", 9, [], []),
        ] as [(String, Int, [String], [String])]
    )
    func historyEndsAtAKnownRevisionOrTheLimit(
        id: String,
        limit: Int,
        known: [String],
        history: [String]
    ) {
        let tree = RevisionTree("1-a 2-b 3-c 4-d", "1-a 2-b 3-x")
        let found = tree.history(of: rev(id), limit: limit, cutAt: known.map(rev))
        #expect(found == history.map(rev))
    }

    @Test(
        arguments: [
            // The recorded answer of Sync Gateway 1.4.1: a leaf of lower generation.
            (["1-a"], ["1-z", "2-y"], ["1-z", "2-y"], ["1-a"]),
            (["1-a"], ["1-a"], [], []), (["1-a"], ["1-z"], ["1-z"], []),
            // The parent of a leaf of the same generation.
            (["1-a 2-b"], ["2-z"], ["2-z"], ["1-a"]), (["1-a 2-b 3-c"], ["2-z"], ["2-z"], []),
            // A leaf that the request names is no suggestion.
            (["1-a"], ["2-y", "1-a"], ["2-y"], []),
            // Within a hundred generations.
            (["1-a"], ["101-y"], ["101-y"], ["1-a"]), (["1-a"], ["102-y"], ["102-y"], []),
            (["1-a 2-b", "1-a 2-c 3-d"], ["4-z", "3-y"], ["4-z", "3-y"], ["3-d", "2-c", "2-b"]),
        ] as [([String], [String], [String], [String])]
    )
    func differenceNamesMissingRevisionsAndAncestors(
        branches: [String],
        asked: [String],
        missing: [String],
        ancestors: [String]
    ) {
        var tree = RevisionTree()
        for branch in branches { tree = tree.merged(with: RevisionTree(branch)) }
        let difference = tree.difference(to: asked.map(rev))
        #expect(difference.missing == missing.map(rev))
        #expect(difference.possibleAncestors == ancestors.map(rev))
    }

    @Test func proposalIsAcceptedOnlyIfItsParentIsTheWinner() {
        let tree = RevisionTree("1-a 2-b", "1-a 2-c")
        #expect(tree.answer(toProposed: rev("2-c"), parent: rev("1-a")) == .known)
        #expect(tree.answer(toProposed: rev("3-d"), parent: rev("2-c")) == .wanted)
        let conflict = RevisionTree.ProposalAnswer.conflict(current: rev("2-c"))
        #expect(tree.answer(toProposed: rev("3-d"), parent: rev("2-b")) == conflict)
        #expect(tree.answer(toProposed: rev("1-d"), parent: nil) == conflict)
        #expect(RevisionTree("1-a!").answer(toProposed: rev("1-d"), parent: nil) == .wanted)
        #expect(RevisionTree().answer(toProposed: rev("1-d"), parent: nil) == .wanted)
    }
}

extension RevisionTree {
    /// This tree with the revisions of another one, which has a single branch.
    func merged(with other: RevisionTree) -> RevisionTree {
        var merged = self
        for node in other.revisions where !merged.contains(node.id) {
            merged.add(.init(parent: node.parent, chain: [node.id]), isDeleted: node.isDeleted)
        }
        return merged
    }
}
