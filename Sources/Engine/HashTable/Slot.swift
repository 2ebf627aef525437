internal import Bytes

/// Eight bytes that say where one document is.
///
/// A resident document: `0 | tag 15 | pointer 45 | size 3`. The tag is 15 bits of the key's hash, so
/// that a wrong document is hardly ever touched. The size, in the bits that are free as blocks lie at
/// multiples of 8, says how many cache lines to ask for ahead of a command. Zero is a free slot; one
/// with its highest bit set is a stub (`StubCoding`).
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

    /// The slot of another version of the same document.
    @inline(__always)
    func leading(to item: Item) -> Slot { Slot((word >> 48) << 48 | Slot.pointer(to: item)) }

    private static let sizeMask: UInt64 = 7
    private static let pointerMask: UInt64 = (1 << 48) - 1 - sizeMask

    @inline(__always)
    private static func pointer(to item: Item) -> UInt64 {
        UInt64(UInt(bitPattern: item.address)) | UInt64(min(item.blockBytes >> 7, 7))
    }

    /// Cache lines that are worth asking for; beyond the last the processor sees the pattern itself.
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
