/// A short digest of a vBucket's history UUID, for tokens that have no room for the UUID itself.
///
/// The digest of fewer bits is the lower part of the digest of more bits, so that a check can be
/// shortened without the UUID.
package struct BranchCheck: Hashable, Sendable {
    /// The widest check, in bits.
    package static let widthMax = 32

    /// The width in bits, from 1 to `widthMax`.
    package let width: Int
    /// The lower `width` bits of the digest.
    package let bits: UInt32

    /// - Parameters:
    ///   - bits: The digest; bits above the width are ignored.
    ///   - width: The width, from 1 to `widthMax`.
    package init(bits: UInt32, width: Int) {
        precondition((1...BranchCheck.widthMax).contains(width), "a check has 1 to 32 bits")
        self.width = width
        self.bits = bits & UInt32.max >> UInt32(BranchCheck.widthMax - width)
    }

    /// The check of a vBucket's history.
    ///
    /// The vBucket is part of the digest: a UUID of another vBucket does not match by its value.
    package init(of uuid: VBucketUUID, vBucket: VBucketID, width: Int = BranchCheck.widthMax) {
        // The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
        var mixed = uuid.value &+ UInt64(vBucket.number) &* 0x9e37_79b9_7f4a_7c15
        mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
        mixed ^= mixed >> 31
        self.init(bits: UInt32(truncatingIfNeeded: mixed), width: width)
    }

    /// This check with at most `width` bits.
    package func shortened(to width: Int) -> BranchCheck {
        BranchCheck(bits: bits, width: min(width, self.width))
    }

    /// Whether the check is of this history.
    package func matches(_ uuid: VBucketUUID, vBucket: VBucketID) -> Bool {
        BranchCheck(of: uuid, vBucket: vBucket, width: width) == self
    }
}

extension FailoverLog {
    /// The newest history that a check matches; nil if there is none.
    package func history(matching check: BranchCheck, vBucket: VBucketID) -> VBucketUUID? {
        entries.first { check.matches($0.uuid, vBucket: vBucket) }?.uuid
    }
}
