internal import Wire

extension Connection {
    /// The features that HELLO may agree on now.
    ///
    /// Those of attributes need nodes that can all store attributes (feature level 6).
    var offeredFeatures: FeatureSet {
        var offered = Connection.offered
        offered.insert(.subdocReplicaRead)
        guard service.allowsAttributes else { return offered }
        for feature in Connection.attributeFeatures { offered.insert(feature) }
        return offered
    }

    private static let attributeFeatures: [Feature] = [
        .xattr, .virtualXattr, .createAsDeleted, .subdocDocumentMacro,
        .subdocReplaceBodyWithXattr, .subdocManyXattrKeys, .subdocBinaryXattr,
    ]
}
