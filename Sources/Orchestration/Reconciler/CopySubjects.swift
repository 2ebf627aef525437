package import Bytes
package import Vocabulary

/// A vBucket and the fence that the requesting node knows.
package struct FencedVBucket: Hashable, Sendable {
    package var vBucket: VBucketID
    package var fence: UInt64

    package init(_ vBucket: VBucketID, fence: UInt64) {
        self.vBucket = vBucket
        self.fence = fence
    }
}

extension FencedVBucket: ExtensibleFields {
    package init() { self.init(VBucketID(0), fence: 0) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&vBucket, "vBucket")
        try coder.field(&fence, "fence")
    }
}

/// A copy that its node is to activate, and the position that the map entry requires of it.
package struct ActivationSubject: Hashable, Sendable {
    package var vBucket: VBucketID
    package var fence: UInt64
    /// The minimum position of a promoted copy; nil for a takeover, whose copy must be complete.
    package var expected: CopyPosition?

    package init(vBucket: VBucketID, fence: UInt64, expected: CopyPosition? = nil) {
        self.vBucket = vBucket
        self.fence = fence
        self.expected = expected
    }
}

extension ActivationSubject: ExtensibleFields {
    package init() { self.init(vBucket: VBucketID(0), fence: 0) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&vBucket, "vBucket")
        try coder.field(&fence, "fence")
        try coder.field(&expected, "expected position")
    }
}
