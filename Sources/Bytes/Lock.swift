internal import Glibc

/// A mutual exclusion lock over `pthread_mutex`; not recursive, held for microseconds only.
///
/// `Synchronization.Mutex` is not used, because ThreadSanitizer does not understand its futex calls
/// and reports false races. It understands `pthread_mutex`.
@usableFromInline
package struct Lock: @unchecked Sendable {  // tidy:allow a mutex is for sharing
    private let address: UnsafeMutableRawPointer

    package init() {
        address = Memory.allocate(MemoryLayout<pthread_mutex_t>.size)
        let code = pthread_mutex_init(mutex, nil)
        precondition(code == 0, "cannot initialise a mutex: error \(code)")
    }

    /// Frees the lock.
    ///
    /// No thread may hold it, or use it afterwards.
    package func destroy() {
        pthread_mutex_destroy(mutex)
        Memory.free(address)
    }

    private var mutex: UnsafeMutablePointer<pthread_mutex_t> {
        address.assumingMemoryBound(to: pthread_mutex_t.self)
    }

    @usableFromInline
    package func acquire() {
        let code = pthread_mutex_lock(mutex)
        precondition(code == 0, "cannot lock a mutex: error \(code)")
    }

    /// Acquires the lock if it is free, without waiting; returns whether it did.
    @usableFromInline
    package func tryAcquire() -> Bool { pthread_mutex_trylock(mutex) == 0 }

    @usableFromInline
    package func release() {
        pthread_mutex_unlock(mutex)
    }

    /// Runs `body` with the lock held.
    ///
    /// - Throws: The error of `body`.
    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        acquire()
        defer { release() }
        return try body()
    }
}

/// Stores a value and returns the one before.
@inlinable @inline(__always)
package func exchange<Value>(_ place: inout Value, with new: Value) -> Value {
    defer { place = new }
    return place
}

/// A value that is accessible only under its lock, for state shared by threads.
@usableFromInline
package final class Guarded<Value>: @unchecked Sendable {  // tidy:allow the lock is the proof
    @usableFromInline let lock = Lock()
    @usableFromInline var value: Value

    package init(_ value: Value) {
        self.value = value
    }

    deinit { lock.destroy() }

    /// Runs `body` on the value with the lock held.
    ///
    /// - Throws: The error of `body`.
    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        lock.acquire()
        defer { lock.release() }
        return try body(&value)
    }

    /// As `withLock`, but does not wait: returns nil, without running `body`, if the lock is held.
    @discardableResult
    package func withLockIfFree<Result>(_ body: (inout Value) -> Result) -> Result? {
        guard lock.tryAcquire() else { return nil }
        defer { lock.release() }
        return body(&value)
    }
}
