internal import Bytes
internal import Replication
internal import Vocabulary
internal import Wire

/// One vBucket's feed to a client, with the connection's state of it.
final class ClientStream {
    let vBucket: VBucketID
    let opaque: UInt32
    let feed: VBucketFeed
    /// Distinguishes the stream from an earlier one of the same vBucket.
    let ticket: UInt64
    var isQueued = false
    /// The client's buffer is full.
    var isStarved = false
    var isOver = false

    init(_ vBucket: VBucketID, opaque: UInt32, _ feed: VBucketFeed, ticket: UInt64) {
        self.vBucket = vBucket
        self.opaque = opaque
        self.feed = feed
        self.ticket = ticket
    }

    /// Closes the feed; nothing is sent from now on.
    func end() {
        isOver = true
        feed.close()
    }
}

/// The format in which a client gets the items of its streams.
struct ClientFormat: Sendable {
    let values: ConsumerSettings.Values
    let includesDeleteTimes: Bool
    let distinguishesExpirations: Bool
    /// Whether the client agreed to the JSON datatype in HELLO.
    let isJSONAgreed: Bool

    init(_ settings: ConsumerSettings, isJSONAgreed: Bool) {
        values = settings.values
        includesDeleteTimes = settings.includesDeleteTimes
        distinguishesExpirations = settings.distinguishesExpirations
        self.isJSONAgreed = isJSONAgreed
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
        case .change(let change): encoder.append(visible(change), to: writer)
        case .advanced: break
        case .purged: encoder.append(DCPStreamEnd.rollback, to: writer)
        case .end(let reason): encoder.append(reason, to: writer)
        case .prepare, .abort: preconditionFailure("a visible-only feed has only visible changes")
        }
    }

    private func visible(_ change: DCPChange) -> DCPChange {
        guard values != .whole || !isJSONAgreed else { return change }
        var meta = change.meta
        if values == .none { meta.datatype = [] }
        if !isJSONAgreed { meta.datatype.remove(.json) }
        return DCPChange(
            meta: meta,
            key: change.key,
            value: values == .whole ? change.value : .empty
        )
    }

    /// The encoder of one stream.
    func encoder(_ vBucket: VBucketID, opaque: UInt32) -> DCPEncoder {
        var encoder = DCPEncoder(vBucket: vBucket, opaque: opaque)
        encoder.includesDeleteTimes = includesDeleteTimes
        encoder.distinguishesExpirations = distinguishesExpirations
        return encoder
    }
}
