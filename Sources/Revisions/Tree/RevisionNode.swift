internal import Bytes
package import SyncWire

/// One revision in the tree of a document, as readers of the tree get it.
package struct RevisionNode: Hashable, Sendable {
    package let id: RevisionID
    /// The revision that it replaced; nil for the first one, and where the parent was pruned.
    package let parent: RevisionID?
    /// Whether the revision deletes its branch of the document.
    package let isDeleted: Bool
    /// The number of its channels in the metadata of the document.
    package let channelSet: UInt16

    package init(
        _ id: RevisionID,
        parent: RevisionID?,
        isDeleted: Bool = false,
        channelSet: UInt16 = 0
    ) {
        self.id = id
        self.parent = parent
        self.isDeleted = isDeleted
        self.channelSet = channelSet
    }

    /// Whether this leaf wins against another one.
    ///
    /// Every gateway and device has this order, so that all choose the same winner without
    /// messages: a live leaf before a deleted one, then the higher generation, then the higher
    /// digest (S 1).
    func wins(against other: RevisionNode) -> Bool {
        guard isDeleted == other.isDeleted else { return other.isDeleted }
        return other.id < id
    }
}

/// One revision of a tree, in 32 bytes.
struct TreeNode: Hashable, Sendable {
    struct Flags: OptionSet, Hashable, Sendable {
        let rawValue: UInt8

        static let deleted = Flags(rawValue: 1)
        /// The digest is packed hexadecimal text.
        static let hexadecimal = Flags(rawValue: 2)
    }

    /// `parent` of a revision without parent.
    static let noParent: Int32 = -1
    /// The longest digest in the node itself; a longer one is in the tree's `longDigests`.
    static let bytesInline = 16

    /// The first eight bytes of an inline digest, zero-padded; the offset of a long one.
    var high: UInt64 = 0
    /// The other eight bytes of an inline digest; 0 for a long one.
    var low: UInt64 = 0
    var generation = 1
    /// The index of the parent, which precedes the node; `noParent` if there is none.
    var parent = TreeNode.noParent
    /// A number that the owner of the tree gives the channels of this revision.
    var channelSet: UInt16 = 0
    /// The bytes of the packed digest.
    var length: UInt8 = 0
    var flags: Flags = []

    var isDeleted: Bool { flags.contains(.deleted) }
    var isInline: Bool { length <= TreeNode.bytesInline }
    var parentIndex: Int? { parent == TreeNode.noParent ? nil : Int(parent) }
}

/// The digest of a revision as a tree stores it.
///
/// Nearly all digests are lowercase hexadecimal text, which has one byte here for two digits. The
/// text is restored exactly, so that a digest of any author survives.
struct PackedDigest: Equatable {
    /// Whether `bytes` are pairs of hexadecimal digits, and not the text itself.
    let isHexadecimal: Bool
    /// 1 to `RevisionID.bytesMax` bytes.
    let bytes: [UInt8]

    init(isHexadecimal: Bool, bytes: [UInt8]) {
        self.isHexadecimal = isHexadecimal
        self.bytes = bytes
    }

    init(_ text: [UInt8]) {
        let pairs = PackedDigest.pairs(text)
        isHexadecimal = pairs != nil
        bytes = pairs ?? text
    }

    var text: [UInt8] {
        guard isHexadecimal else { return bytes }
        let digits = Array("0123456789abcdef".utf8)
        return bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
    }

    /// One byte for two digits; nil if `text` is not lowercase hexadecimal of even length.
    private static func pairs(_ text: [UInt8]) -> [UInt8]? {
        guard text.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 2)
        for index in stride(from: 0, to: text.count, by: 2) {
            guard let high = value(text[index]), let low = value(text[index + 1]) else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
