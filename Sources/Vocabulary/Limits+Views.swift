/// Bounds of design documents, which every node keeps in memory as part of the agreed state.
extension Limits {
    /// Bytes of a design document's text: a hundred long functions fit.
    package static let designDocumentBytesMax = 1 << 20
    /// Bytes that all design documents of a cluster may take, each with its name and
    /// `designOverheadBytes`: the agreed state is encoded and sent as a whole.
    package static let designDocumentsBytesMax = 4 << 20
    /// Bytes that count for a design document besides its name and its text: what a node keeps of
    /// the smallest one.
    package static let designOverheadBytes = 64
    /// Bytes of a design document's name: with `_design/` it is a document's key.
    package static let designNameBytesMax = keyBytesMax - "_design/".utf8.count
    /// Views of a design document: each becomes an index on every node.
    package static let viewsMax = 256
    /// Views of all buckets: each index has memory and open files on every node while its bucket changes.
    package static let viewsOfAllMax = 1_000
}
