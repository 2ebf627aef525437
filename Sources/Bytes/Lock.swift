internal import Glibc

/// A mutual exclusion lock: a few lines over `pthread_mutex`.
///
/// Not `Synchronization.Mutex`: ThreadSanitizer does not understand its futex calls and reports
/// races that are none; `pthread_mutex` it knows. Not recursive, held for microseconds only.
@usableFromInline
package struct Lock: @unchecked Sendable {  // tidy:allow a mutex is for sharing
    private let address: UnsafeMutableRawPointer

    package init() {
        address = Memory.allocate(MemoryLayout<pthread_mutex_t>.size)
        let code = pthread_mutex_init(mutex, nil)
        precondition(code == 0, "a mutex could not be made: error \(code)")
    }

    /// Frees the lock; nobody may hold it or come for it any more.
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
        precondition(code == 0, "a mutex could not be locked: error \(code)")
    }

    /// Takes the lock where nobody has it; says whether it did.
    @usableFromInline
    package func tryAcquire() -> Bool { pthread_mutex_trylock(mutex) == 0 }

    @usableFromInline
    package func release() {
        pthread_mutex_unlock(mutex)
    }

    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        acquire()
        defer { release() }
        return try body()
    }
}

/// A value that is reached only under its lock, for state that several threads share.
@usableFromInline
package final class Guarded<Value>: @unchecked Sendable {  // tidy:allow the lock is the proof
    @usableFromInline let lock = Lock()
    @usableFromInline var value: Value

    package init(_ value: Value) {
        self.value = value
    }

    deinit { lock.destroy() }

    @inlinable
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        lock.acquire()
        defer { lock.release() }
        return try body(&value)
    }

    /// As `withLock`, but waits for nobody: nil where somebody has the lock.
    @discardableResult
    package func withLockIfFree<Result>(_ body: (inout Value) -> Result) -> Result? {
        guard lock.tryAcquire() else { return nil }
        defer { lock.release() }
        return body(&value)
    }
}
