/// The bounds of what a device or a configuration file may send.
package enum SyncLimits {
    /// A document's JSON, as Sync Gateway has it (the largest value of a Couchbase bucket).
    package static let documentBytesMax = 20 << 20
    /// The content of an attachment, as Sync Gateway has it.
    package static let attachmentBytesMax = 20 << 20
    /// The text of a `_bulk_docs` request, of which the reader keeps one document at a time.
    package static let bulkBytesMax = 100 << 20
    /// Nesting of a document: far more than documents have, and few enough for every later reader.
    package static let depthMax = 1_000
    /// A `_revisions` member or `history`: the longest branch that a database of the 1.x dialect keeps.
    package static let historyRevisionsMax = 1_000
    package static let historyBytesMax = 64 << 10
    /// Elements of `_revs_diff`, `doc_ids`, `open_revs`, `channels`, and of `_bulk_get`, each.
    package static let listMax = 10_000
    /// The text of a request that consists of lists: `listMax` names of 1 000 bytes.
    package static let requestBytesMax = 10 << 20
    /// A query string: servers and proxies cut longer ones.
    package static let queryBytesMax = 64 << 10
    package static let queryParametersMax = 256
    package static let configurationBytesMax = 16 << 20
}
