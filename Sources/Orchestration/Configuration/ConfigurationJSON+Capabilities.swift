package import Vocabulary

/// The words by which clients enable features of a bucket.
///
/// A client sends requests of each feature that is listed, so only implemented features are listed, and
/// those that all members have to understand only from their feature level on. The raise to such a level
/// raises the revision of every configuration, so that clients load the new words.
extension ConfigurationJSON {
    /// Of every bucket.
    private static let always = [
        "dcp", "cbhello", "touch", "cccp", "nodesExt", "preserveExpiry",
        "preserve_expiry", "durableWrite",
    ]

    /// Of every bucket from the feature level of extended attributes on.
    ///
    /// `tombstonedUserXAttrs` is the word for CREATE_AS_DELETED.
    private static let attributes = [
        "xattr", "tombstonedUserXAttrs", "subdoc.AccessDeleted", "subdoc.ReplaceBodyWithXattr",
        "subdoc.DocumentMacroSupport", "subdoc.ReviveDocument", "subdoc.ReplicaRead",
        "subdoc.BinaryXattr",
    ]

    /// Of every bucket from the same level on, because earlier releases end such a stream at once: the
    /// flag 0x80 of a stream request.
    private static let streams = ["dcp.IgnorePurgedTombstones"]

    /// Of buckets with views.
    private static let views = ["couchapi"]

    /// The capabilities of a bucket.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - servers: The listed nodes, from `servers(of:)`.
    ///   - level: The cluster's feature level.
    /// - Returns: A list of words.
    package static func capabilities(
        of bucket: BucketRecord,
        servers: [NodeRecord],
        level: FeatureLevel
    ) -> JSONText {
        let words =
            always + (level >= .attributes ? attributes + streams : [])
            + (hasViews(bucket, servers) ? views : [])
        return .array(words.map(JSONText.string))
    }
}
