/// The number of a node of an index's trees: assigned in ascending order, never reused.
package struct IndexNodeID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let value: UInt64

    package init(_ value: UInt64) {
        self.value = value
    }

    /// The root of an empty tree; no node has this number.
    package static var none: IndexNodeID { IndexNodeID(0) }

    package static func < (one: IndexNodeID, other: IndexNodeID) -> Bool {
        one.value < other.value
    }

    package var description: String { "node \(value)" }
}

/// The number of a value that is stored outside its leaf; never reused.
package struct IndexValueID: Hashable, Comparable, Sendable {
    package let value: UInt64

    package init(_ value: UInt64) {
        self.value = value
    }

    package static func < (one: IndexValueID, other: IndexValueID) -> Bool {
        one.value < other.value
    }
}

/// Where an index has the rows of a vBucket.
///
/// Stored as its number.
package enum VBucketHome: UInt8, CaseIterable, Hashable, Sendable {
    /// The index has no rows of the vBucket. Next: filling.
    case none = 0
    /// In the main tree, complete up to the vBucket's position: queries count them. Next: leaving.
    case main = 1
    /// In a tree of their own; reserved for vBuckets that are not served from here.
    case side = 2
    /// In the main tree, being removed: no query counts them. Next: none.
    case leaving = 3
    /// In the main tree, but not yet through the seqno that the vBucket had when its feed was opened:
    /// no query counts them, and every query reports the vBucket as missing. Next: main, leaving.
    case filling = 4
}
