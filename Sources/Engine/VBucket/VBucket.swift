public import Bytes

/// One vBucket: the lock, and the only door through it.
///
/// The body given to `withCore` runs to completion: no I/O, no waiting, and never another vBucket.
/// There is exactly one lock on the data path, so there is no lock order to remember. A handle of
/// three words; the memory behind it belongs to the `Bucket` and lives as long.
@usableFromInline
package struct VBucket: @unchecked Sendable {  // tidy:allow the core is reached under its lock only
    // Apart, so that taking the lock is no access to what it guards.
    @usableFromInline let lock = Lock()
    @usableFromInline let core: UnsafeMutablePointer<VBucketCore>
    /// Where this vBucket's table begins, for prefetching.
    @usableFromInline package let root: SharedWord

    init(_ core: consuming VBucketCore, root: SharedWord) {
        self.core = .allocate(capacity: 1)
        self.core.initialize(to: core)
        self.root = root
    }

    /// Frees everything; no call may follow.
    func destroy() {
        lock.destroy()
        core.deinitialize(count: 1)
        core.deallocate()
    }

    @inlinable @inline(__always)
    package func withCore<Result, Failure: Error>(
        _ body: (inout VBucketCore) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        lock.acquire()
        defer { lock.release() }
        return try body(&core.pointee)
    }
}
