package import Bytes

/// One vBucket: the lock, and the only door through it.
///
/// The body given to `withCore` runs to completion: no I/O, no waiting, and never another vBucket.
/// There is exactly one lock on the data path, so there is no lock order to remember. A handle of
/// one pointer; the memory behind it belongs to the `Bucket` and lives as long.
package struct VBucket: @unchecked Sendable {  // tidy:allow the core is reached under its lock only
    private struct Guarded: ~Copyable {
        let lock: Lock
        var core: VBucketCore
    }

    private let pointer: UnsafeMutablePointer<Guarded>
    /// Where this vBucket's table begins, for prefetching.
    package let root: SharedWord

    init(_ core: consuming VBucketCore, root: SharedWord) {
        pointer = .allocate(capacity: 1)
        pointer.initialize(to: Guarded(lock: Lock(), core: core))
        self.root = root
    }

    /// Frees everything; nobody may come any more.
    func destroy() {
        pointer.pointee.lock.destroy()
        pointer.deinitialize(count: 1)
        pointer.deallocate()
    }

    @inline(__always)
    package func withCore<Result, Failure: Error>(
        _ body: (inout VBucketCore) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pointer.pointee.lock.acquire()
        defer { pointer.pointee.lock.release() }
        return try body(&pointer.pointee.core)
    }
}
