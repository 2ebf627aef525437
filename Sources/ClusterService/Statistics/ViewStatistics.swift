package import Bytes
package import Vocabulary

/// The indexes of a node's views, sent to every other node with its statistics while there are any.
///
/// - No decision depends on them, as on `NodeStatistics`.
package struct ViewStatistics: Hashable, Sendable {
    package struct Bucket: Hashable, Sendable {
        package var name: String
        /// Bytes of the index files, and the part of them that is in use.
        package var diskUsed: UInt64 = 0
        package var dataUsed: UInt64 = 0
        /// Queries of which the node has answered a part; grows while the bucket has views.
        package var queries: UInt64 = 0
        package var designDocuments: [DesignDocument] = []

        package init(name: String) { self.name = name }

        /// The numbers of the bucket's statistics.
        package var numbers: [(Statistic, UInt64)] {
            [(.viewsDiskUsed, diskUsed), (.viewsDataUsed, dataUsed), (.viewQueries, queries)]
        }
    }

    /// How far the indexes of a design document are; one that several documents share counts in each.
    package struct DesignDocument: Hashable, Sendable {
        /// Without `_design/`.
        package var name: String
        package var isBuilding = false
        package var changesDone: UInt64 = 0
        package var changesTotal: UInt64 = 0
        /// Whether a build waits for its turn, and none of the document's runs.
        package var awaitsBuild = false
        /// The entries that running compactions have copied, and all of them; 0 without one.
        package var copied: UInt64 = 0
        package var toCopy: UInt64 = 0

        package init(name: String) { self.name = name }
    }

    package var buckets: [Bucket] = []

    package init() {}

    package func bucket(named name: String) -> Bucket? { buckets.first { $0.name == name } }
}

// MARK: Between nodes

extension ViewStatistics: ExtensibleFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&buckets, "buckets")
    }
}

extension ViewStatistics.Bucket: ExtensibleFields {
    package init() { self.init(name: "") }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&name, "name")
        try coder.field(&diskUsed, "used disk")
        try coder.field(&dataUsed, "used data")
        try coder.field(&queries, "queries")
        try coder.field(&designDocuments, "design documents")
    }
}

extension ViewStatistics.DesignDocument: ExtensibleFields {
    package init() { self.init(name: "") }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&name, "name")
        try coder.field(&isBuilding, "building")
        try coder.field(&changesDone, "done changes")
        try coder.field(&changesTotal, "changes")
        try coder.field(&awaitsBuild, "awaits build")
        try coder.field(&copied, "copied entries")
        try coder.field(&toCopy, "entries to copy")
    }
}
