internal import Bytes
package import Vocabulary

/// A set of vBuckets, as a query names those that it wants from a node.
package struct VBucketMask: Equatable, Sendable {
    @usableFromInline var words = [UInt64](repeating: 0, count: 16)

    @inlinable
    package init() {}

    @inlinable
    package init(_ vBuckets: some Sequence<VBucketID>) {
        for vBucket in vBuckets { insert(vBucket) }
    }

    @inlinable
    package mutating func insert(_ vBucket: VBucketID) {
        let number = Int(vBucket.number)
        precondition(number < 1_024, "a bucket has at most 1024 vBuckets")
        words[number >> 6] |= 1 << UInt64(number & 63)
    }

    /// False for numbers that no vBucket can have.
    @inlinable
    package func contains(_ vBucket: VBucketID) -> Bool {
        let number = Int(vBucket.number)
        return number < 1_024 && words[number >> 6] >> UInt64(number & 63) & 1 == 1
    }
}

extension [VBucketID] {
    /// Whether the other list has the same vBuckets in the same order.
    ///
    /// It compares memory: to compare all vBuckets of a bucket one by one costs more than to read a row.
    package func isSame(as other: [VBucketID]) -> Bool {
        withUnsafeBytes { bytes in
            other.withUnsafeBytes { ByteView(bytes).equals(ByteView($0)) }
        }
    }
}
