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
