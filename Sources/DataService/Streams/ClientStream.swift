internal import Vocabulary

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
    /// The bytes of the client's buffer that the feed's read from disk may fill.
    var reserved = 0
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
