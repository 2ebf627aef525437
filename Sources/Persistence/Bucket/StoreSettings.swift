/// Layout and maintenance settings of a bucket's files.
///
/// `lanes` and `vBuckets` are fixed when the bucket is created.
package struct StoreSettings: Hashable, Sendable {
    /// The number of lane files; each has its own writer.
    package var lanes = 4
    package var vBuckets = 1_024
    package var blocks = BlockLimits()
    /// The WAL is copied into the file once it exceeds this many 4 KiB pages (32 MiB).
    ///
    /// A page that was overwritten until then is copied only once.
    package var walPagesPassive = 8_192
    /// Beyond this many pages (64 MiB) the WAL is copied and truncated, waiting for readers.
    package var walPagesTruncate = 16_384
    /// Merging starts above this many documents in mixed blocks: fewer would not fill pure blocks.
    package var mergedDocumentsMin = 8_000
    /// Maximum pages of a lane file; 0 for no limit.
    package var filePagesMax = 0
    /// The lane is closed after this many consecutive failures of its file.
    package var failuresMax = 3

    package init() {}
}
