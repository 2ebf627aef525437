/// The token that detects a lost update: new with every change, never zero for a document.
///
/// Nanoseconds of a hybrid logical clock, strictly increasing within a vBucket.
@usableFromInline
package struct CAS: Hashable, Comparable, Sendable {
    @usableFromInline package let value: UInt64

    @inlinable
    package init(_ value: UInt64) {
        self.value = value
    }

    /// In a request, matches any version; never the CAS of a document.
    @inlinable package static var none: CAS { CAS(0) }

    /// Hides a locked document's CAS from clients that do not hold the lock.
    @inlinable package static var locked: CAS { CAS(.max) }

    @inlinable
    package static func < (one: CAS, other: CAS) -> Bool { one.value < other.value }
}

/// The number of a change in its vBucket's order: 1 for the first, 48 bits wide.
@usableFromInline
package struct Seqno: Hashable, Comparable, Sendable {
    @usableFromInline package let value: UInt64

    @inlinable
    package init(_ value: UInt64) {
        self.value = value
    }

    /// Before the first change.
    @inlinable package static var zero: Seqno { Seqno(0) }
    /// The last seqno that a vBucket can assign, of 48 bits; requests of clients may name later ones.
    @inlinable package static var last: Seqno { Seqno(1 << 48 - 1) }

    @inlinable
    package static func < (one: Seqno, other: Seqno) -> Bool { one.value < other.value }
}

/// The name of one uninterrupted history of a vBucket: random, never zero.
@usableFromInline
package struct VBucketUUID: Hashable, Sendable {
    @usableFromInline package let value: UInt64

    @inlinable
    package init(_ value: UInt64) {
        self.value = value
    }
}

/// The number of a node within its cluster: never reused, not even after the node was removed.
package struct NodeNumber: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let value: UInt16

    package init(_ value: UInt16) {
        self.value = value
    }

    package static func < (one: NodeNumber, other: NodeNumber) -> Bool { one.value < other.value }

    package var description: String { "n\(value)" }
}
