package import Bytes

/// A digest of a node's highest seqnos in all active vBuckets of a bucket.
///
/// When the node is lost, comparing its last digest with the replicas' seqnos shows whether it had
/// changes that no other node has. Sums of different sets of vBuckets cannot be compared: `mark`
/// identifies the set.
package struct ActiveSeqnoDigest: Hashable, Sendable {
    /// A hash of the vBuckets and their fences; independent of the order in which they were added.
    package private(set) var mark: UInt64 = 0
    /// The sum of their highest seqnos.
    package private(set) var sum: UInt64 = 0

    package init() {}

    /// Adds a vBucket with its fence and its highest seqno.
    package mutating func add(_ vBucket: VBucketID, fence: UInt64, high: Seqno = .zero) {
        // Two rounds of SplitMix64's finalizer (Steele, Lea, Flood 2014) separate similar inputs.
        var mixed = fence &* 0x9e37_79b9_7f4a_7c15 &+ UInt64(vBucket.number) &+ 1
        for _ in 0..<2 {
            mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
            mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
            mixed ^= mixed >> 31
        }
        mark &+= mixed
        sum &+= high.value
    }
}

extension ActiveSeqnoDigest: CodedFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.fixed(&mark, "mark")
        try coder.field(&sum, "sum")
    }
}
