/// A step in the evolution of everything that nodes exchange or keep in common: peer messages, log
/// commands and shared formats ~ cluster version.
///
/// A release announces the highest level that it understands. The cluster agrees on the lowest level
/// that all its members announce, and uses a feature only from that feature's level on. So members
/// of two releases can form one cluster while an operator upgrades it node by node.
///
/// - The agreed level never falls. A node that announces less is refused.
/// - A number is never reused. Each new one has a name that states what it permits.
package struct FeatureLevel: Hashable, Comparable, Sendable {
    /// From 1.
    package let number: UInt16

    package init(_ number: UInt16) {
        self.number = number
    }

    /// Level 1: the formats of the first release whose peer records carry their length.
    ///
    /// Also the level of a cluster whose state an earlier release wrote.
    package static let base = FeatureLevel(1)
    /// Level 2: a node may ask another one for a random key (peer call 23).
    package static let randomKeyCall = FeatureLevel(2)
    /// Level 3: the agreed state has design documents, settings of indexes and the nodes' ports for
    /// views (log commands 9, 22, 36 and 37, state schema 8), and nodes query each other's indexes (peer service 5).
    package static let designDocuments = FeatureLevel(3)
    /// Level 4: the agreed state has local users (log commands 10, 11 and 12, state schema 9) and
    /// passwords of buckets.
    package static let localUsers = FeatureLevel(4)

    /// Level 5: nodes read each other's changes for HTTP feeds (peer service 6).
    package static let changeFeeds = FeatureLevel(5)

    /// Level 6: documents and tombstones have extended attributes (`Datatype.xattr`), so a tombstone
    /// may have a value: on disk, and on the streams between nodes.
    ///
    /// From it on, a node may request a purge of all tombstones of a bucket from another one (peer call 26),
    /// and end the compaction of a bucket there (peer call 27).
    package static let attributes = FeatureLevel(6)

    /// The highest level that this release understands.
    package static let current = attributes

    package static func < (one: FeatureLevel, other: FeatureLevel) -> Bool {
        one.number < other.number
    }
}
