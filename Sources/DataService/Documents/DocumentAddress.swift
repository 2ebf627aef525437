internal import Bytes
internal import Engine
internal import Vocabulary

/// One key of one vBucket that this node has a copy of.
///
/// - The key is borrowed: an address lives no longer than the bytes it was made of.
struct DocumentAddress {
    let key: ByteView
    /// Of the key, by the service's `KeyHash`.
    let hash: UInt64
    let id: VBucketID
    let vBucket: VBucket
}
