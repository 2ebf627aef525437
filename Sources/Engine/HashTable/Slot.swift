internal import Bytes

/// Eight bytes that say where one document is.
///
/// A resident document: `0 | tag 15 | pointer 48`. The tag is 15 bits of the key's hash, so that a
/// wrong document is hardly ever touched. Zero is a free slot.
package struct Slot {
    let word: UInt64

    @inline(__always)
    init(_ word: UInt64) {
        self.word = word
    }

    @inline(__always)
    init(_ item: Item, hash: UInt64) {
        word = Slot.tag(of: hash) << 48 | UInt64(UInt(bitPattern: item.address))
    }

    @inline(__always)
    static func tag(of hash: UInt64) -> UInt64 { hash & 0x7fff }

    @inline(__always)
    var isFree: Bool { word == 0 }

    @inline(__always)
    func matches(_ tag: UInt64) -> Bool { word >> 48 == tag && word != 0 }

    @inline(__always)
    var item: Item {
        guard let address = UnsafeMutableRawPointer(bitPattern: UInt(word & 0xffff_ffff_ffff))
        else { preconditionFailure("a free slot has no item") }
        return Item(address)
    }
}
