/// How a bucket's files are laid out and kept: the first two are fixed when the bucket is made.
package struct StoreSettings: Hashable, Sendable {
    /// Files, each with a writer of its own.
    package var lanes = 4
    package var vBuckets = 1_024
    package var blocks = BlockLimits()
    /// The WAL is copied into the file when it passes this many 4 KiB pages (32 MiB): what was
    /// overwritten by then is copied once.
    package var walPagesPassive = 8_192
    /// Beyond this (64 MiB) the WAL is cut, waiting for readers.
    package var walPagesTruncate = 16_384
    /// Merging waits for as many documents in mixed blocks: fewer would not fill pure ones.
    package var mergedDocumentsMin = 8_000
    /// Pages a file may have at most; 0 for what the disk holds.
    package var filePagesMax = 0
    /// A lane whose file failed as often in a row is closed.
    package var failuresMax = 3

    package init() {}
}
