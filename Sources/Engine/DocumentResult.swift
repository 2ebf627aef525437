package import Vocabulary

/// The result of one attempt at a command on one document.
package enum DocumentResult<Value> {
    case done(Value)
    /// The write has its CAS and its seqno in the change order; it becomes visible when it is
    /// committed.
    case prepared(Stored)
    /// The attempt had no effect; after the wait the caller repeats it.
    case wait(Wait)
    /// The command had no effect.
    case refused(DocumentRefusal)

    @inline(__always)
    package func map<Other>(_ transform: (Value) -> Other) -> DocumentResult<Other> {
        switch self {
        case .done(let value): .done(transform(value))
        case .prepared(let stored): .prepared(stored)
        case .wait(let wait): .wait(wait)
        case .refused(let refusal): .refused(refusal)
        }
    }
}

/// The result of a read; the CAS is `.locked` for a locked document.
///
/// An item is valid only until the vBucket's lock is released.
package typealias ReadResult = DocumentResult<(item: Item, cas: CAS)>

/// The result of a write, or of completing one.
package typealias WriteResult = DocumentResult<Stored>

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
    /// Memory is short of this many bytes, the new value's and the old one's if the write reads
    /// it; the pager may free them.
    case room(Int)
}
