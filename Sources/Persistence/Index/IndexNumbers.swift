/// The number of a slot: the stored partial results of one reduce function.
///
/// After a slot was removed, a new slot may have its number.
package struct IndexSlotID: Hashable, Sendable {
    package let value: UInt32

    package init(_ value: UInt32) {
        self.value = value
    }
}

/// The number of a commit in its file: 0 before the first, then one more per commit.
package struct IndexCommit: Hashable, Comparable, Sendable {
    package let value: UInt64

    package init(_ value: UInt64) {
        self.value = value
    }

    package var next: IndexCommit { IndexCommit(value + 1) }

    package static func < (one: IndexCommit, other: IndexCommit) -> Bool {
        one.value < other.value
    }
}

/// The trees of an index whose roots the file's head names.
package enum IndexTree: UInt8, Hashable, Sendable {
    /// Key to value: what a query reads.
    case main = 1
    /// Document to its rows: what an update reads.
    case back = 2
}

/// A sorted run of a first build.
package struct IndexRunID: Hashable, Sendable {
    /// The tree that the run's rows are for.
    package let tree: IndexTree
    package let number: UInt32

    package init(_ tree: IndexTree, _ number: UInt32) {
        self.tree = tree
        self.number = number
    }
}
