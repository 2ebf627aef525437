import Bytes
import Revisions
import SyncWire
import Testing

/// A tree of random branches, with the additions that made it.
struct RandomTree {
    private(set) var tree = RevisionTree()
    /// Each revision's history, newest first, in the order of additions.
    private(set) var histories: [(history: [RevisionID], isDeleted: Bool)] = []

    init(seed: UInt64, count: Int) {
        var random = SeededRandom(seed: seed)
        for number in 0..<count {
            let known = tree.revisions
            let isNew = known.isEmpty || random.next() % 10 == 0
            // Mostly a recent revision, so that branches grow.
            let back = Int(random.next() % UInt64(min(known.count, 6) + 1))
            let parent = isNew ? nil : known[max(known.count - 1 - back, 0)]
            let digit = String(random.next() % 4, radix: 16)
            let generation = (parent?.id.generation ?? 0) + 1 + (random.next() % 8 == 0 ? 2 : 0)
            let digest = random.next() % 3 == 0 ? "x\(number)" : "\(digit)\(number % 10)\(number)0"
            let id = rev("\(generation)-\(digest)")
            let isDeleted = random.next() % 4 == 0
            let history = [id] + (parent.map { tree.ancestry(of: $0.id) } ?? [])
            histories.append((history, isDeleted))
            tree.place(history, isDeleted: isDeleted)
        }
    }
}

extension RevisionTree {
    mutating func place(_ history: [RevisionID], isDeleted: Bool) {
        let placement = placeReplicated(history, isDeleted: isDeleted, allowsConflicts: true)
        guard case .added(let addition) = placement else { return }
        add(addition, isDeleted: isDeleted)
    }
}

/// The tree as maps, written down from the rules.
private struct NaiveTree {
    var parents: [RevisionID: RevisionID?] = [:]
    var deleted: Set<RevisionID> = []

    mutating func place(_ history: [RevisionID], isDeleted: Bool) {
        guard let id = history.first, parents[id] == nil else { return }
        for (child, parent) in zip(history, history.dropFirst()) where parents[child] == nil {
            parents[child] = .some(parent)
        }
        if let root = history.last, parents[root] == nil { parents[root] = .some(nil) }
        if isDeleted { deleted.insert(id) }
    }

    var leaves: Set<RevisionID> { Set(parents.keys).subtracting(parents.values.compactMap { $0 }) }

    var winner: RevisionID? {
        let live = leaves.subtracting(deleted)
        return (live.isEmpty ? leaves : live).max()
    }
}

@Suite struct TreeWalkTests {
    @Test func treeAgreesWithANaiveModel() throws {
        for seed in UInt64(1)...60 {
            let walk = RandomTree(seed: seed, count: 40)
            var tree = RevisionTree()
            var model = NaiveTree()
            for step in walk.histories {
                tree.place(step.history, isDeleted: step.isDeleted)
                model.place(step.history, isDeleted: step.isDeleted)
                try #require(Set(tree.leaves.map(\.id)) == model.leaves, "seed \(seed)")
                try #require(tree.winner?.id == model.winner, "seed \(seed)")
                let live = model.leaves.subtracting(model.deleted).count
                try #require(tree.hasConflict == (live > 1), "seed \(seed)")
                try #require(tree.isBranched == (model.leaves.count > 1), "seed \(seed)")
            }
            for node in tree.revisions {
                try #require(model.parents[node.id] == .some(node.parent), "seed \(seed)")
                try #require(model.deleted.contains(node.id) == node.isDeleted, "seed \(seed)")
            }
            try #require(try RevisionTree(decoding: tree.encoded) == tree, "seed \(seed)")
        }
    }

    /// Whole histories arrive in any order: the leaves do not depend on it, if no inner revision is deleted,
    /// which only its own arrival says.
    @Test func orderOfArrivalDoesNotChangeLeavesOrWinner() throws {
        for seed in UInt64(1)...60 {
            let walk = RandomTree(seed: seed, count: 30)
            var random = SeededRandom(seed: seed &+ 1_000)
            var tree = RevisionTree()
            for step in walk.histories.shuffled(using: &random) {
                tree.place(step.history, isDeleted: step.isDeleted)
            }
            try #require(Set(tree.leaves) == Set(walk.tree.leaves), "seed \(seed)")
            try #require(tree.winner == walk.tree.winner, "seed \(seed)")
            for leaf in tree.leaves {
                let same = tree.ancestry(of: leaf.id) == walk.tree.ancestry(of: leaf.id)
                try #require(same, "seed \(seed)")
            }
        }
    }

    /// Any bytes decode to a tree that encodes again, or fail; nothing traps.
    @Test func damagedBytesAreRefusedOrMakeAValidTree() throws {
        for seed in UInt64(1)...1_000 {
            var random = SeededRandom(seed: seed)
            var bytes = RandomTree(seed: seed % 20, count: 6).tree.encoded
            for _ in 0...random.next() % 3 {
                let place = Int(random.next() % UInt64(bytes.count))
                bytes[place] = UInt8(truncatingIfNeeded: random.next())
            }
            guard var tree = try? RevisionTree(decoding: bytes) else { continue }
            try #require(try RevisionTree(decoding: tree.encoded) == tree, "seed \(seed)")
            for node in tree.revisions {
                let isHigher = node.parent.map { $0.generation < node.id.generation } ?? true
                try #require(isHigher, "seed \(seed)")
            }
            tree.prune(limit: 2)
        }
    }
}
