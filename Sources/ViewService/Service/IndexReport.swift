package import Indexing

/// One index of the node, for statistics, tasks and operators.
package struct IndexReport: Sendable {
    /// A view that the index serves.
    package struct View: Hashable, Sendable {
        /// Without `_design/`.
        package let designDocument: String
        package let view: String

        package init(designDocument: String, view: String) {
            self.designDocument = designDocument
            self.view = view
        }
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
    /// Of the file alone, without its write-ahead log.
    package var fileBytes: UInt64 = 0
    /// Of `fileBytes`, those of pages that are in use.
    package var usedBytes: UInt64 = 0
    package var memoryBytes = 0

    /// Whether documents are being indexed that queries do not count yet.
    package var isBuilding: Bool { isOpen && fault == nil && !status.isComplete }

    /// A report without content; `bucket` is the bucket's UUID.
    package init(bucket: String, signature: IndexSignature) {
        self.bucket = bucket
        self.signature = signature
    }
}

/// An index of the node.
struct IndexName: Hashable, Sendable {
    /// The bucket's UUID.
    let bucket: String
    let signature: IndexSignature
}
