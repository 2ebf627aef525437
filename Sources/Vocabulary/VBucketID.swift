package import Bytes

/// The number of a vBucket within its bucket: 0 up to, not including, the bucket's count.
///
/// A hash of the key assigns a document to its vBucket; vBuckets are the unit of movement between
/// nodes. Clients compute the same number, so the formula is part of the protocol.
@usableFromInline
package struct VBucketID: Hashable, Comparable, Sendable, CustomStringConvertible {
    @usableFromInline package let number: UInt16

    @inlinable
    package init(_ number: UInt16) {
        self.number = number
    }

    /// The vBucket that `key` (without its collection prefix) belongs to, among `count`.
    package init(ofKey key: ByteView, count: Int) {
        let bits = CRC32.checksum(key) >> 16 & 0x7fff
        number = UInt16(bits % UInt32(count))
    }

    @inlinable
    package static func < (one: VBucketID, other: VBucketID) -> Bool { one.number < other.number }

    @usableFromInline package var description: String { "vb:\(number)" }
}

extension VBucketID {
    /// The vBucket that `key` belongs to, among `count`.
    package init(ofKey key: [UInt8], count: Int) {
        self = key.withUnsafeBytes { VBucketID(ofKey: ByteView($0), count: count) }
    }
}
