internal import Bytes
internal import Engine
internal import Vocabulary

/// One key of a vBucket of which this node has a copy.
///
/// - The key is borrowed: an address is valid only while the key's bytes are.
struct DocumentAddress {
    let key: ByteView
    /// The key's hash by the service's `KeyHash`.
    let hash: UInt64
    let id: VBucketID
    let vBucket: VBucket
}
