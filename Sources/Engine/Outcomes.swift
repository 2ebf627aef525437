package import Vocabulary

/// The possible results of a write.
package enum MutationOutcome {
    case stored(Stored)
    /// The write has its CAS and its seqno in the change order; it becomes visible when it is
    /// committed.
    case prepared(Stored)
    /// Another write of the key was prepared and is not completed.
    case inProgress
    /// Another write of the key was prepared elsewhere or before a restart: it may have been
    /// committed and shown to a client.
    case recommitting
    case notFound
    /// A document exists where the request requires none, or has another CAS than the request.
    case exists
    case locked
    /// The unlock request met a document that is not locked.
    case notLocked
    /// Append and prepend found nothing to add to.
    case notStored
    /// The value is not a number.
    case notANumber
    case tooLarge
    /// Memory is short of this many bytes: the new value's, and the old one's if the write reads
    /// it.
    case noRoom(Int)
    case notMyVBucket
    /// The copy holds back writes (`WriteHolds`): the client retries later.
    case temporaryFailure
    /// The write has to wait; then the caller repeats it.
    case wouldBlock(Wait)
}

/// The CAS and seqno of a stored version, and the wakeups that it requires.
package struct Stored {
    package let cas: CAS
    package let seqno: Seqno
    package let uuid: VBucketUUID
    /// The flusher had nothing to do before this change and has to be woken.
    package let wakesFlusher: Bool
    /// A stream had read every change before this one, and its sender has to be woken.
    package var wakesStreams = false
    /// The result of an arithmetic command, else 0.
    package var number: UInt64 = 0
}

/// The result of completing a prepare.
package enum CommitOutcome {
    /// The version that is visible from now on.
    case committed(Stored)
    /// The write never becomes visible; `cas` is the prepare's.
    case aborted(Stored)
    /// The prepare does not exist, or this copy does not decide about it under that fence.
    case gone
    case wouldBlock(Wait)
}

/// The possible results of a read.
///
/// An item is valid only until the vBucket's lock is released.
package enum ReadOutcome {
    case found(Item, cas: CAS)
    /// A write of the key is prepared; only for commands that change or lock a document.
    case inProgress
    /// A write of the key may have been committed elsewhere: a value read here may be older than
    /// one that a client has seen.
    case recommitting
    case notFound
    case locked
    case temporaryFailure
    case notMyVBucket
    case wouldBlock(Wait)
}

/// The condition that a request has to wait for.
package enum Wait {
    /// The value of this version is on disk only.
    case value(Seqno)
    /// This version is on disk only, key and metadata included.
    case metadata(Seqno)
    /// The vBucket's documents are still being loaded.
    case warmup
    /// A hand-over to another node is in progress: writes wait for its end.
    case handOver
    /// Memory is short of this many bytes, and the pager may free them.
    case room(Int)
}
