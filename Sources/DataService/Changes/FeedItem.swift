package import Bytes
package import Engine
internal import Replication
package import Vocabulary
package import Wire

/// One item of a feed.
///
/// Keys and values are borrowed: they are valid only during the call of `Encode`.
package enum FeedItem {
    /// The changes up to the snapshot's end follow. They are consistent only together.
    case snapshot(FeedSnapshot)
    /// A document or a tombstone.
    case change(DCPChange)
    /// Replication mode only: a durable write that is not completed.
    case prepare(DCPChange, DurabilityLevel)
    /// Replication mode only: a prepare was aborted.
    case abort(DCPAbort)
    /// Every change through this seqno was encoded; the last ones are invisible or were replaced.
    case advanced(to: Seqno)
    /// The feed ends because tombstones after the consumer's position were purged. The consumer
    /// restarts from zero.
    case purged
    /// The feed ends for this reason.
    case end(DCPStreamEnd)
}

/// The announcement of a snapshot in a feed, before the snapshot's changes.
package struct FeedSnapshot {
    package let marker: DCPSnapshotMarker
    /// Replication mode only: which tombstones are missing from a snapshot that begins at zero.
    ///
    /// Nil if none were purged.
    package let purge: NodePurge?
    /// Replication mode only: all prepares that are outstanding at the snapshot's end, by seqno.
    ///
    /// Nil if aborts are encoded one by one, so that the list is unnecessary.
    package let outstanding: [Seqno]?
}

/// The reader of a feed: its admission, its format and its wakeup.
package struct FeedConsumer: Sendable {
    /// Whether the vBucket may be read.
    ///
    /// Evaluated under the vBucket's lock before every read. If false, the feed ends with
    /// `stateChanged`.
    package typealias Admission = @Sendable (borrowing VBucketCore) -> Bool
    /// Copies an item to the consumer's output, in the consumer's format.
    ///
    /// Called under the vBucket's lock for changes from memory, and on a lane for changes from disk.
    package typealias Encode = @Sendable (FeedItem, ByteWriter) -> Void

    let mode: ChangeStream.Mode
    let admits: Admission
    let encode: Encode
    /// Called from any lane when `step` may have work again.
    let wake: @Sendable () -> Void
    /// Whether the feed continues if tombstones after its position were purged.
    var ignoresPurges = false
    /// Whether the feed has only what one scan of the disk finds, and then ends.
    var readsDiskOnly = false

    /// A consumer of everything that another copy needs, including prepares and aborts.
    package static func replication(
        admits: @escaping Admission,
        encode: @escaping Encode,
        wake: @escaping @Sendable () -> Void
    ) -> FeedConsumer {
        FeedConsumer(mode: .replication, admits: admits, encode: encode, wake: wake)
    }

    /// A consumer of the changes that clients may see.
    package static func visibleOnly(
        admits: @escaping Admission = { _ in true },
        encode: @escaping Encode,
        wake: @escaping @Sendable () -> Void
    ) -> FeedConsumer {
        FeedConsumer(mode: .visibleOnly, admits: admits, encode: encode, wake: wake)
    }
}

/// The answer to a request for a feed.
package enum FeedOpening {
    /// The copy has changes through `high`, of this history.
    case opened(VBucketFeed, high: Seqno, FailoverLog)
    /// The consumer's changes after `to` are not of this history, or tombstones that it lacks were
    /// purged. The consumer discards its changes after `to` and requests a feed again.
    case rollBack(to: Seqno, FailoverLog)
    /// The numbers of the request contradict each other.
    case outOfRange
    /// The bucket does not have this vBucket.
    case noVBucket
    /// The consumer's `Admission` is false.
    case notAdmitted
    /// The copy is still being loaded from disk: retry later.
    case notLoaded
}
