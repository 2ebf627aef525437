internal import Bytes
internal import Replication
internal import Vocabulary
internal import Wire

/// The format in which a client gets the items of its streams.
struct ClientFormat: Sendable {
    let values: ConsumerSettings.Values
    let includesDeleteTimes: Bool
    let distinguishesExpirations: Bool
    let includesAttributes: Bool
    let includesDeletedUserAttributes: Bool

    init(_ settings: ConsumerSettings) {
        values = settings.values
        includesDeleteTimes = settings.includesDeleteTimes
        distinguishesExpirations = settings.distinguishesExpirations
        includesAttributes = settings.includesAttributes
        includesDeletedUserAttributes = settings.includesDeletedUserAttributes
    }

    /// Appends an item of a visible-only feed.
    ///
    /// A client without support for it gets no message for `advanced`: its snapshots end at
    /// visible changes.
    func append(
        _ item: FeedItem,
        _ encoder: DCPEncoder,
        to writer: ByteWriter
    ) {
        switch item {
        case .snapshot(let snapshot): encoder.append(snapshot.marker, to: writer)
        case .change(let change): append(change, encoder, to: writer)
        case .advanced: break
        case .purged: encoder.append(DCPStreamEnd.rollback, to: writer)
        case .end(let reason): encoder.append(reason, to: writer)
        case .prepare, .abort: preconditionFailure("a visible-only feed has only visible changes")
        }
    }

    /// Appends a change, with what the client gets of its value.
    ///
    /// The datatype says JSON even if the client did not agree to it in HELLO: gateways up to 3.0
    /// do not, and import only documents of this datatype.
    private func append(_ change: DCPChange, _ encoder: DCPEncoder, to writer: ByteWriter) {
        var meta = change.meta
        let stored = meta.datatype
        guard values != .whole || meta.isDeleted || stored.contains(.xattr) else {
            return encoder.append(change, to: writer)
        }
        if stored.contains(.xattr), includesAttributes {
            return appendWithAttributes(change, meta, encoder: encoder, to: writer)
        }
        meta.datatype.remove(.xattr)
        // A deletion has no value but attributes.
        if meta.isDeleted || values == .none { meta.datatype = [] }
        let isSent = values == .whole && !meta.isDeleted
        let body = isSent ? XattrBlob.body(of: change.value, stored) : .empty
        encoder.append(DCPChange(meta: meta, key: change.key, value: body), to: writer)
    }

    /// Appends a change with extended attributes.
    ///
    /// Without values, the attributes are sent without the body. A deletion has the system's
    /// attributes alone, unless the client asked for the user's as well.
    private func appendWithAttributes(
        _ change: DCPChange,
        _ meta: DocumentMeta,
        encoder: DCPEncoder,
        to writer: ByteWriter
    ) {
        var meta = meta
        let blob = XattrBlob(stored: change.value)
        if meta.isDeleted, !includesDeletedUserAttributes {
            let system = ByteWriter()
            let hasAttributes = XattrWriter.appendSystemPairs(of: blob, to: system)
            meta.datatype = hasAttributes ? .xattr : []
            let value = hasAttributes ? system.view : .empty
            encoder.append(DCPChange(meta: meta, key: change.key, value: value), to: writer)
            return withExtendedLifetime(system) {}
        }
        if values == .none { meta.datatype = .xattr }
        let count = change.value.count - (values == .whole ? 0 : blob.body.count)
        let value = change.value.slice(0, count)
        encoder.append(DCPChange(meta: meta, key: change.key, value: value), to: writer)
    }

    /// The encoder of one stream.
    func encoder(_ vBucket: VBucketID, opaque: UInt32) -> DCPEncoder {
        var encoder = DCPEncoder(vBucket: vBucket, opaque: opaque)
        encoder.includesDeleteTimes = includesDeleteTimes
        encoder.distinguishesExpirations = distinguishesExpirations
        return encoder
    }
}
