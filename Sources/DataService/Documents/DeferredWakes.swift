internal import Engine
internal import Vocabulary

/// The wake-ups due after a change that no result reports: a read may turn an expired document into
/// a tombstone, and a touch sets an expiry.
struct DeferredWakes {
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
    func note(_ wakes: DeferredWakes, _ id: VBucketID) {
        if wakes.flusher { bucket.disk?.markDirty(id) }
        if wakes.streams { bucket.traffic.notify(.changed, of: id) }
    }

    /// Wakes what the read of an update that stored nothing left to wake.
    @inline(never)
    func noteRead(_ document: DocumentAddress) {
        var wakes = DeferredWakes()
        document.vBucket.withCore { wakes.take(from: &$0) }
        note(wakes, document.id)
    }
}
