import Revisions
import SyncWire
import Testing

@Suite struct PlacementTests {
    @Test(
        arguments: [
            ([], nil, .parent(nil)), ([], "1-a", .refused(.staleRevision)),
            (["1-a"], nil, .refused(.documentExists)), (["1-a"], "1-a", .parent(rev("1-a"))),
            (["1-a"], "1-b", .refused(.staleRevision)),
            (["1-a 2-b"], "1-a", .refused(.staleRevision)),
            // A deleted document is written again above its tombstone, by name or without.
            (["1-a 2-b!"], nil, .parent(rev("2-b"))), (["1-a 2-b!"], "2-b", .parent(rev("2-b"))),
            // A losing branch may continue.
            (["1-a 2-b", "1-a 2-c"], "2-b", .parent(rev("2-b"))),
        ] as [([String], String?, RevisionTree.EditParent)]
    )
    func editReplacesALeaf(branches: [String], parent: String?, found: RevisionTree.EditParent) {
        let tree = branches.reduce(RevisionTree()) { $0.merged(with: RevisionTree($1)) }
        let parent = parent.map(rev)
        #expect(tree.parentOfEdit(parent, isDeleted: false, allowsConflicts: true) == found)
    }

    @Test func refusalsHaveSyncGatewaysStatusesAndReasons() {
        #expect(Refusal.documentExists == .init(409, "Document exists"))
        let stale = Refusal(409, "Document revision conflict")
        #expect(Refusal.staleRevision == stale)
        #expect(Refusal.invalidHistory == .init(400, "Bad _revisions"))
    }

    @Test(
        arguments: [
            (["3-c", "2-b", "1-a"], nil, ["1-a", "2-b", "3-c"]),
            (["2-z", "1-y"], nil, ["1-y", "2-z"]),
            (["4-d", "3-x", "2-b"], "2-b", ["3-x", "4-d"]), (["3-d", "2-c"], "2-c", ["3-d"]),
            // Gaps of generations occur in histories of BLIP.
            (["9-d", "2-c"], "2-c", ["9-d"]),
        ] as [([String], String?, [String])]
    )
    func replicatedRevisionJoinsItsNewestKnownAncestor(
        history: [String],
        parent: String?,
        chain: [String]
    ) {
        let tree = parent == nil ? RevisionTree() : RevisionTree("1-a 2-b", "1-a 2-c!")
        let found = tree.placeReplicated(
            history.map(rev),
            isDeleted: false,
            allowsConflicts: true
        )
        #expect(found == .added(.init(parent: parent.map(rev), chain: chain.map(rev))))
    }

    @Test func knownRevisionChangesNothing() {
        let tree = RevisionTree("1-a 2-b")
        for history in [revs("2-b", "1-a"), revs("1-a"), revs("2-b", "1-q")] {
            let found = tree.placeReplicated(history, isDeleted: false, allowsConflicts: false)
            #expect(found == .known)
        }
    }

    @Test(arguments: [
        [], ["1-a", "1-b"], ["1-a", "2-b"], ["2-b", "2-a"], ["3-c", "1-a", "1-a"],
    ])
    func historyWhoseGenerationsDoNotDecreaseIsRefused(history: [String]) {
        let found = RevisionTree().placeReplicated(
            history.map(rev),
            isDeleted: false,
            allowsConflicts: true
        )
        #expect(found == .refused(.invalidHistory))
    }

    @Test func historyHasAtMostAThousandRevisions() {
        let history = (1...1_001).reversed().map { rev("\($0)-a") }
        let long = RevisionTree().placeReplicated(
            history,
            isDeleted: false,
            allowsConflicts: true
        )
        #expect(long == .refused(.historyTooLong(1_001)))
        let longest = RevisionTree().placeReplicated(
            Array(history.dropLast()),
            isDeleted: false,
            allowsConflicts: true
        )
        #expect(longest != .refused(.historyTooLong(1_000)))
        guard case .added(let addition) = longest else { return }
        #expect(addition.chain.count == 1_000)
    }

    @Test(
        arguments: [
            // Replaces the winner.
            (["1-a 2-b"], ["3-c", "2-b"], false, true), ([], ["3-c", "2-b"], false, true),
            // Beside the winner.
            (["1-a 2-b"], ["2-c", "1-a"], false, false), (["1-a 2-b"], ["1-c"], false, false),
            (["1-a 2-b", "1-a 2-c"], ["3-d", "2-b"], false, false),
            // A tombstone ends a live branch, but begins none and continues no deleted one.
            (["1-a 2-b", "1-a 2-c"], ["3-d", "2-b"], true, true),
            (["1-a 2-b"], ["2-c", "1-a"], true, false),
            (["1-a 2-b!", "1-a 2-c"], ["3-d", "2-b"], true, false),
            // A deleted document may be written again without its history, and above its tombstone.
            (["1-a 2-b!"], ["1-c"], false, true), (["1-a 2-b!"], ["3-d", "2-b"], false, true),
            (["1-a 2-b!"], ["2-c", "1-a"], false, false),
        ] as [([String], [String], Bool, Bool)]
    )
    func databaseWithoutConflictsRefusesBranches(
        branches: [String],
        history: [String],
        isDeleted: Bool,
        isAdded: Bool
    ) {
        let tree = branches.reduce(RevisionTree()) { $0.merged(with: RevisionTree($1)) }
        let history = history.map(rev)
        let found = tree.placeReplicated(history, isDeleted: isDeleted, allowsConflicts: false)
        #expect((found != .refused(.staleRevision)) == isAdded)
        let allowed = tree.placeReplicated(history, isDeleted: isDeleted, allowsConflicts: true)
        #expect(allowed != .refused(.staleRevision))
    }

    @Test func databaseWithoutConflictsEndsLosingBranchesOnly() {
        let tree = RevisionTree("1-a 2-b", "1-a 2-c")
        let losing = rev("2-b")
        let edit = tree.parentOfEdit(losing, isDeleted: false, allowsConflicts: false)
        #expect(edit == .refused(.staleRevision))
        let deletion = tree.parentOfEdit(losing, isDeleted: true, allowsConflicts: false)
        #expect(deletion == .parent(losing))
    }
}
