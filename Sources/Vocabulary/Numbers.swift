/// The token that detects a lost update: new at every change, never zero for a document.
///
/// Nanoseconds of a hybrid logical clock, strictly increasing within a vBucket.
package struct CAS: Hashable, Comparable, Sendable {
    package let value: UInt64

    @inlinable
    package init(_ value: UInt64) {
        self.value = value
    }

    /// In a request: any version will do; never the CAS of a document.
    package static let none = CAS(0)

    /// What others see in place of a locked document's CAS.
    package static let locked = CAS(.max)

    package static func < (one: CAS, other: CAS) -> Bool { one.value < other.value }
}

/// The place of a change in its vBucket's order: 1 for the first, 48 bits wide.
package struct Seqno: Hashable, Comparable, Sendable {
    package let value: UInt64

    @inlinable
    package init(_ value: UInt64) {
        self.value = value
    }

    /// Before the first change.
    package static let zero = Seqno(0)

    package static func < (one: Seqno, other: Seqno) -> Bool { one.value < other.value }
}

/// The name of one uninterrupted history of a vBucket: random, never zero.
package struct VBucketUUID: Hashable, Sendable {
    package let value: UInt64

    @inlinable
    package init(_ value: UInt64) {
        self.value = value
    }
}
