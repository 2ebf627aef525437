package import Indexing

/// One index of the node, for statistics, tasks and operators.
package struct IndexReport: Sendable {
    /// A view that the index serves.
    package struct View: Hashable, Sendable {
        /// Without `_design/`.
        package let designDocument: String
        package let view: String
    }

    package let bucket: String
    package let signature: IndexSignature
    package var bucketName = ""
    package var views: [View] = []
    /// Whether its file is open.
    package var isOpen = false
    /// How far it is, and the errors of its function.
    package var status = ViewIndex.Status()
    /// Why it gets no further changes: the file's error, or that its function runs away.
    package var fault: String?
    package var diskBytes: UInt64 = 0
    package var memoryBytes = 0

    init(_ name: IndexName) {
        bucket = name.bucket
        signature = name.signature
    }
}

/// An index of the node.
struct IndexName: Hashable, Sendable {
    /// The bucket's UUID.
    let bucket: String
    let signature: IndexSignature
}
