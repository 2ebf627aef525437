/// A request that a copy of a vBucket become active, with the precondition that the copy must meet.
package struct CopyActivation: Hashable, Sendable {
    /// Why the copy is to become active.
    package enum Reason: Hashable, Sendable {
        /// The former active copy is lost: a new history begins at this copy's covered seqno.
        ///
        /// `expected` is the position that the copy reported; nil accepts any.
        case promotion(expected: CopyPosition?)
        /// The former active copy handed over everything up to `final`; its history continues.
        case takeover(final: Seqno)
        /// The copy was active under `fence` until it stopped, and no other copy was active since.
        case resumption(fence: UInt64)
    }

    package var vBucket: VBucketID
    /// The fence of the map entry that names the copy.
    package var fence: UInt64
    package var reason: Reason

    package init(_ vBucket: VBucketID, _ fence: UInt64, reason: Reason) {
        self.vBucket = vBucket
        self.fence = fence
        self.reason = reason
    }
}

/// How a hand-over of an active vBucket ended.
package enum HandOverOutcome: Hashable, Sendable {
    /// Every copy of the next chain has everything up to this seqno, and no write follows.
    case drained(Seqno)
    /// The hand-over timed out: the copy stays active, and the hand-over may be requested again.
    case busy
    /// The copy is not the active one of the requested fence.
    case refused
}
