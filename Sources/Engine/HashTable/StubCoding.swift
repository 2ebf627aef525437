/// The encoding of a stub: a slot whose document is on disk only.
///
/// `1 | deleted 1 | has attributes 1 | top bits of the hash 61 - k | seqno k`: eight bytes and no
/// block. The seqno is the document's address on disk. The hash bits place the stub when the table
/// grows, as it has no key to hash again, and distinguish it from nearly all other stubs.
///
/// - k grows with the vBucket's seqnos; all stubs of a table have the same k.
struct StubCoding {
    /// k: enough for 16 million changes, which leaves 37 hash bits.
    private(set) var seqnoBits: UInt64 = 24

    private static let stubBit: UInt64 = 1 << 63
    private static let deletedBit: UInt64 = 1 << 62
    private static let attributesBit: UInt64 = 1 << 61
    /// The bits above those of the hash.
    private static let flagBits: UInt64 = 3
    /// The bits by which k grows at a time, for few rewrites.
    private static let step: UInt64 = 4
    /// Hash bits beyond those that place a stub, so that its table can grow eightfold.
    private static let growthBits: UInt64 = 3

    var hashBits: UInt64 { 64 - StubCoding.flagBits - seqnoBits }

    private var seqnoMask: UInt64 { (1 << seqnoBits) - 1 }
    private var hashMask: UInt64 { ~0 >> StubCoding.flagBits & ~seqnoMask }

    func slot(hash: UInt64, seqno: UInt64, isDeleted: Bool, hasAttributes: Bool) -> Slot {
        precondition(seqno & ~seqnoMask == 0, "the coding is widened before seqnos outgrow it")
        let deleted = isDeleted ? StubCoding.deletedBit : 0
        let attributes = hasAttributes ? StubCoding.attributesBit : 0
        let bits = StubCoding.stubBit | deleted | attributes
        return Slot(bits | (hash >> StubCoding.flagBits) & hashMask | seqno)
    }

    func seqno(of slot: Slot) -> UInt64 { slot.word & seqnoMask }

    func isDeleted(_ slot: Slot) -> Bool { slot.word & StubCoding.deletedBit != 0 }

    /// Whether the version's value has extended attributes.
    func hasAttributes(_ slot: Slot) -> Bool { slot.word & StubCoding.attributesBit != 0 }

    /// The hash bits of a stub; the unknown lower bits are zero.
    func hash(of slot: Slot) -> UInt64 { (slot.word & hashMask) << StubCoding.flagBits }

    func matches(_ slot: Slot, hash: UInt64) -> Bool {
        slot.isStub && (slot.word ^ hash >> StubCoding.flagBits) & hashMask == 0
    }

    /// Whether the hash bits suffice to place stubs in a segment of this depth.
    func isEnough(forDepth depth: UInt64) -> Bool {
        hashBits >= Segment.homeBits + depth + StubCoding.growthBits
    }

    /// The coding for seqnos up to `seqno`.
    func widened(for seqno: UInt64) -> StubCoding {
        var wider = self
        while seqno & ~wider.seqnoMask != 0 { wider.seqnoBits += StubCoding.step }
        return wider
    }
}
