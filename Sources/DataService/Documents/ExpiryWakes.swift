internal import Engine
internal import Vocabulary

/// The wake-ups due after a read, which may have turned an expired document into a tombstone.
struct ExpiryWakes {
    var flusher = false
    var streams = false

    @inline(__always)
    mutating func take(from core: inout VBucketCore) {
        flusher = core.takePendingWakeup()
        streams = core.takeOwedStreamWake()
    }
}

extension DocumentOperations {
    @inline(__always)
    func note(_ expiry: ExpiryWakes, _ id: VBucketID) {
        if expiry.flusher { bucket.disk?.markDirty(id) }
        if expiry.streams { bucket.traffic.notify(.changed, of: id) }
    }

    /// Wakes what the read of an update that stored nothing left to wake.
    @inline(never)
    func noteExpiry(_ document: DocumentAddress) {
        var expiry = ExpiryWakes()
        document.vBucket.withCore { expiry.take(from: &$0) }
        note(expiry, document.id)
    }
}
