package import Bytes
package import Indexing
package import Vocabulary

/// Feeds and seqnos of vBuckets, for the view service from the data service; `Server` connects the two.
///
/// A bucket is named by its UUID, so that a call never reaches another bucket of the same name.
package protocol DocumentChangePort: Sendable {
    /// Opens a feed of the visible changes of a vBucket.
    ///
    /// - Parameters:
    ///   - vBucket: The vBucket.
    ///   - bucket: The bucket's UUID.
    ///   - position: The last change that the reader has.
    ///   - wake: Called from any lane when `step` may have work again.
    /// - Returns: The feed, or why there is none.
    func openFeed(
        of vBucket: VBucketID,
        ofBucket bucket: String,
        at position: IndexPosition,
        wake: @escaping @Sendable () -> Void
    ) -> ChangeFeedOpening
    /// The newest visible change of each vBucket, with its history.
    ///
    /// vBuckets that this node does not serve at present are left out: all of them if the node's lease
    /// has ended, since another node may have newer changes then.
    func highVisible(
        of vBuckets: [VBucketID],
        ofBucket bucket: String
    ) -> [VBucketID: AwaitedChange]
    /// Watches vBuckets for a change, without the cost of feeds.
    ///
    /// - Parameters:
    ///   - vBuckets: The vBuckets.
    ///   - bucket: The bucket's UUID.
    ///   - changed: Called from any thread, also before this call returns, at the next change of one of
    ///     them that comes behind this call, or of what this node has of it; possibly several times.
    /// - Returns: The watch; nil if the bucket is not here.
    func watch(
        _ vBuckets: [VBucketID],
        ofBucket bucket: String,
        _ changed: @escaping @Sendable () -> Void
    ) -> (any ChangeWatch)?
}

/// Lasts until it is cancelled; must be cancelled once it has called.
package protocol ChangeWatch: Sendable {
    func cancel()
}

/// The answer to a request for a feed.
package enum ChangeFeedOpening {
    /// The copy has changes through `high`, of the history `uuid`.
    case opened(any ChangeFeed, high: Seqno, uuid: VBucketUUID)
    /// The reader has changes that the copy does not have.
    case rollBack
    /// The copy cannot be read at present: it is being loaded, or it is not here.
    case unavailable
}

/// The visible changes of one vBucket; used by one thread at a time.
package protocol ChangeFeed: AnyObject {
    /// Appends the next records (`ChangeRecord`) to `output`.
    ///
    /// - Parameters:
    ///   - credit: The bytes that the reader accepts; one change may exceed it.
    ///   - output: Where records are appended.
    /// - Returns: Whether there is more; if not, `wake` is called when there is.
    func step(credit: Int, into output: ByteWriter) -> StreamProgress
    /// Ends a read of the disk that does not progress.
    ///
    /// - Returns: Whether the feed was ended; the next step appends the record that states it.
    func endIfStalled() -> Bool
    /// Releases all resources; nothing is appended from now on.
    func close()
}
