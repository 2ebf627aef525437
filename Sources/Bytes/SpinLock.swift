public import CPrefetch
internal import Glibc

/// A lock for a few instructions: one byte, acquired by an atomic exchange.
///
/// A waiting thread spins, then yields its processor, because the holder may have been preempted.
/// The lock is held for nanoseconds and never across a call that could block.
@usableFromInline
package struct SpinLock: @unchecked Sendable {  // tidy:allow a lock is for sharing
    @usableFromInline let flag: UnsafeMutablePointer<UInt8>

    /// A lock in the byte at `flag`, which must be zero at first and outlive the lock.
    @inlinable
    package init(at flag: UnsafeMutablePointer<UInt8>) {
        self.flag = flag
    }

    @inlinable @inline(__always)
    package func acquire() {
        if divan_try_acquire(flag) == 0 { wait() }
    }

    @inline(never) @usableFromInline
    func wait() {
        var spins = 0
        repeat {
            while divan_is_taken(flag) != 0 {
                spins += 1
                if spins < SpinLock.spinsMax { divan_pause() } else { sched_yield() }
            }
        } while divan_try_acquire(flag) == 0
    }

    /// A few microseconds: much longer than a running thread holds the lock.
    private static let spinsMax = 100

    @inlinable @inline(__always)
    package func release() { divan_release(flag) }
}

/// A 64-bit word that threads share without a lock.
@usableFromInline
package struct SharedWord: @unchecked Sendable {  // tidy:allow every access is atomic
    @usableFromInline package let address: UnsafeMutablePointer<UInt64>

    /// The word at `address`, which must outlive this value.
    @inlinable @inline(__always)
    package init(at address: UnsafeMutablePointer<UInt64>) {
        self.address = address
    }

    /// The first of `count` new words, all with `value`; the owner deallocates `address`.
    package static func allocated(_ value: UInt64 = 0, count: Int = 1) -> SharedWord {
        let words = UnsafeMutablePointer<UInt64>.allocate(capacity: count)
        words.initialize(repeating: value, count: count)
        return SharedWord(at: words)
    }

    @inlinable @inline(__always)
    package func load() -> UInt64 { divan_load_relaxed(address) }

    @inlinable @inline(__always)
    package func store(_ value: UInt64) { divan_store_relaxed(address, value) }

    @inlinable @inline(__always)
    package func loadAcquire() -> UInt64 { divan_load_acquire(address) }

    @inlinable @inline(__always)
    package func storeRelease(_ value: UInt64) { divan_store_release(address, value) }

    /// Adds atomically and returns the sum.
    @inlinable @inline(__always) @discardableResult
    package func add(_ value: Int) -> UInt64 {
        divan_add_relaxed(address, UInt64(bitPattern: Int64(value)))
    }
}

/// Prefetches the cache line at `address`; an invalid address is harmless.
@inlinable @inline(__always)
package func prefetch(_ address: UnsafeRawPointer) { divan_prefetch(address) }
