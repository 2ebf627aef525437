package import Vocabulary

/// Everything a write may come to.
package enum MutationOutcome {
    case stored(Stored)
    case notFound
    /// There is a document, or another version of it than the request's CAS says.
    case exists
    case locked
    /// The unlock request met a document that is not locked.
    case notLocked
    /// Append and prepend found nothing to add to.
    case notStored
    /// The value is not a number.
    case notANumber
    case tooLarge
    /// Memory is short: try again in a moment.
    case temporaryFailure
    case notMyVBucket
    /// The answer needs something from disk first; then ask again.
    case wouldBlock(Wait)
}

/// What a stored version got.
package struct Stored {
    package let cas: CAS
    package let seqno: Seqno
    package let uuid: VBucketUUID
    /// The flusher had nothing to do before this: it has to be told.
    package let wakesFlusher: Bool
    /// A stream had read everything: those who send it have to be told.
    package var wakesStreams = false
    /// The result of an arithmetic command, else 0.
    package var number: UInt64 = 0
}

/// Everything a read may come to.
///
/// An item is valid only until the vBucket's lock is released.
package enum ReadOutcome {
    case found(Item, cas: CAS)
    case notFound
    case locked
    case temporaryFailure
    case notMyVBucket
    case wouldBlock(Wait)
}

/// What a request has to wait for.
package enum Wait {
    /// The value of this version is on disk only.
    case value(Seqno)
    /// Of this version, whose key is unknown, everything is on disk only.
    case metadata(Seqno)
    /// The vBucket's documents are still being loaded.
    case warmup
}
