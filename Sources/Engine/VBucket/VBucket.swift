public import Bytes

/// One vBucket: its lock, and `withCore`, the only access to the core under that lock.
///
/// The body given to `withCore` runs to completion: no I/O, no waiting, and never another vBucket.
/// There is exactly one lock on the data path, so there is no lock order. This is a handle of three
/// words; the `Bucket` owns the memory that it points to.
@usableFromInline
package struct VBucket: @unchecked Sendable {  // tidy:allow the core is reached under its lock only
    // Outside the core, so that acquiring the lock does not access the guarded memory.
    @usableFromInline let lock = Lock()
    @usableFromInline let core: UnsafeMutablePointer<VBucketCore>
    /// The root of this vBucket's table, for prefetching.
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

    /// Visits the table slice by slice, and releases the lock between slices.
    ///
    /// - Parameter body: Visits the slice at a start; returns the start of the next slice, or nil
    ///   to end.
    package func forEachSlice(_ body: (inout VBucketCore, _ start: UInt64) -> UInt64?) {
        var start: UInt64? = 0
        while let place = start { start = withCore { body(&$0, place) } }
    }
}
