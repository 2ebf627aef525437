internal import Bytes
internal import Vocabulary

/// Stubs: documents of which the table keeps eight bytes.
///
/// A stub may belong to any key with its hash bits: a command that needs the version fetches it
/// from disk and `fill`s the slot. Once in millions, the version belongs to another key.
extension HashTable {
    /// A stub that was found; valid until the table changes.
    struct Stub {
        fileprivate let segment: Segment
        fileprivate let group: Int
        fileprivate let place: Int
        let seqno: UInt64
        let isDeleted: Bool
        /// The version's value has extended attributes.
        let hasAttributes: Bool
    }

    /// The first stub that matches the hash bits of `hash` and satisfies `condition`; nil if none
    /// does.
    func findStub(_ hash: UInt64, where condition: (Stub) -> Bool) -> Stub? {
        guard stubCount > 0, let (segment, position) = segment(of: hash) else { return nil }
        for index in segment.home(position)..<segment.groupsWithSpares {
            let group = segment.group(index)
            for place in 0..<Segment.slotsPerGroup {
                let slot = Slot(group[place])
                guard coding.matches(slot, hash: hash) else { continue }
                let stub = Stub(
                    segment: segment,
                    group: index,
                    place: place,
                    seqno: coding.seqno(of: slot),
                    isDeleted: coding.isDeleted(slot),
                    hasAttributes: coding.hasAttributes(slot)
                )
                if condition(stub) { return stub }
            }
            if !segment.isFull(index) { return nil }
        }
        return nil
    }

    /// Replaces a document by a stub; false if the seqnos leave too few hash bits for stubs.
    ///
    /// The caller frees the item's block.
    mutating func shrink(_ place: Place) -> Bool {
        let item = place.item
        let (hash, seqno) = (hash(item.key), item.seqno.value)
        let wider = coding.widened(for: seqno)
        let depth = directoryEntry(hash).map { $0.0.depth(at: $0.1) } ?? 0
        guard wider.isEnough(forDepth: depth) else { return false }
        if wider.seqnoBits != coding.seqnoBits { rewrite(wider) }
        let slot = coding.slot(
            hash: hash,
            seqno: seqno,
            isDeleted: item.isDeleted,
            hasAttributes: item.datatype.contains(.xattr)
        )
        SharedWord(at: place.segment.group(place.group) + place.place).store(slot.word)
        stubCount += 1
        return true
    }

    /// Replaces a stub by its fetched document.
    mutating func fill(_ stub: Stub, with item: Item, hash: UInt64) {
        let word = stub.segment.group(stub.group) + stub.place
        SharedWord(at: word).store(Slot(item, hash: hash).word)
        stubCount -= 1
    }

    /// Removes a stub.
    mutating func remove(_ stub: Stub, hash: UInt64) {
        stubCount -= 1
        remove(stub.segment, stub.group, stub.place, hash: hash)
    }

    /// Rewrites every stub with fewer hash bits and more seqno bits.
    ///
    /// No stub moves: its place depends on the top hash bits only.
    private mutating func rewrite(_ wider: StubCoding) {
        if stubCount > 0 {
            for segment in segments {
                for index in 0..<segment.groupsWithSpares {
                    let group = segment.group(index)
                    for place in 0..<Segment.slotsPerGroup where Slot(group[place]).isStub {
                        let slot = Slot(group[place])
                        let next = wider.slot(
                            hash: coding.hash(of: slot),
                            seqno: coding.seqno(of: slot),
                            isDeleted: coding.isDeleted(slot),
                            hasAttributes: coding.hasAttributes(slot)
                        )
                        SharedWord(at: group + place).store(next.word)
                    }
                }
            }
        }
        coding = wider
    }
}
