/// Eight bytes with the address of one document.
///
/// A document in memory: `0 | tag 15 | pointer 45 | size 3`. The tag is 15 bits of the key's hash,
/// so that another key's document is hardly ever read. The size, in the bits that are free because
/// blocks lie at multiples of 8, encodes how many cache lines to prefetch. Zero is a free slot; a
/// slot with its highest bit set is a stub (`StubCoding`).
package struct Slot {
    let word: UInt64

    @inline(__always)
    init(_ word: UInt64) {
        self.word = word
    }

    @inline(__always)
    init(_ item: Item, hash: UInt64) {
        word = Slot.tag(of: hash) << 48 | Slot.pointer(to: item)
    }

    /// The slot for another version of the same document.
    @inline(__always)
    func leading(to item: Item) -> Slot { Slot((word >> 48) << 48 | Slot.pointer(to: item)) }

    private static let sizeMask: UInt64 = 7
    private static let pointerMask: UInt64 = (1 << 48) - 1 - sizeMask

    @inline(__always)
    private static func pointer(to item: Item) -> UInt64 {
        UInt64(UInt(bitPattern: item.address)) | UInt64(min(item.blockBytes >> 7, 7))
    }

    /// The number of cache lines to prefetch; the processor itself prefetches the following lines.
    @inline(__always)
    var lines: Int { 3 + 2 * Int(word & Slot.sizeMask) }

    @inline(__always)
    static func tag(of hash: UInt64) -> UInt64 { hash & 0x7fff }

    @inline(__always)
    var isStub: Bool { word >> 63 == 1 }

    @inline(__always)
    var isResident: Bool { word != 0 && word >> 63 == 0 }

    @inline(__always)
    var isFree: Bool { word == 0 }

    @inline(__always)
    func matches(_ tag: UInt64) -> Bool { word >> 48 == tag && word != 0 }

    @inline(__always)
    var item: Item {
        guard let address = UnsafeMutableRawPointer(bitPattern: UInt(word & Slot.pointerMask))
        else { preconditionFailure("a free slot has no item") }
        assert(!isStub, "a stub has no item")
        return Item(address)
    }
}
