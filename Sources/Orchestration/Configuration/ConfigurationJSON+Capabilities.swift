/// The words by which clients enable features of a bucket.
///
/// A client sends requests of each feature that is listed, so only implemented features are listed.
extension ConfigurationJSON {
    /// Of every bucket.
    private static let always = [
        "dcp", "cbhello", "touch", "cccp", "nodesExt", "preserveExpiry",
        "preserve_expiry", "durableWrite",
        // `tombstonedUserXAttrs` is the word for CREATE_AS_DELETED.
        "xattr", "tombstonedUserXAttrs", "subdoc.AccessDeleted", "subdoc.ReplaceBodyWithXattr",
        "subdoc.DocumentMacroSupport", "subdoc.ReviveDocument", "subdoc.ReplicaRead",
        "subdoc.BinaryXattr",
        // The flag 0x80 of a stream request.
        "dcp.IgnorePurgedTombstones",
    ]

    /// Of buckets with views.
    private static let views = ["couchapi"]

    /// The capabilities of a bucket.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - servers: The listed nodes, from `servers(of:)`.
    /// - Returns: A list of words.
    package static func capabilities(
        of bucket: BucketRecord,
        servers: [NodeRecord]
    ) -> JSONText {
        let words = always + (hasViews(bucket, servers) ? views : [])
        return .array(words.map(JSONText.string))
    }
}
