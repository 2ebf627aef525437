public import CPrefetch
internal import Glibc

/// A lock for a handful of instructions: one byte that is taken by an exchange.
///
/// Who waits, spins, and soon offers its processor to others: the holder may have lost its own in
/// the middle. Held for nanoseconds and never across a call that could block.
@usableFromInline
package struct SpinLock: @unchecked Sendable {  // tidy:allow a lock is for sharing
    @usableFromInline let flag: UnsafeMutablePointer<UInt8>

    /// The lock lives in the byte at `flag`, which must be zero at first and outlive it.
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

    /// Some microseconds: much longer than anyone holds the lock while running.
    private static let spinsMax = 100

    @inlinable @inline(__always)
    package func release() { divan_release(flag) }
}

/// One 64-bit word that threads share without a lock.
@usableFromInline
package struct SharedWord: @unchecked Sendable {  // tidy:allow every access is atomic
    @usableFromInline package let address: UnsafeMutablePointer<UInt64>

    /// The word at `address`, which must outlive this.
    @inlinable @inline(__always)
    package init(at address: UnsafeMutablePointer<UInt64>) {
        self.address = address
    }

    @inlinable @inline(__always)
    package func load() -> UInt64 { divan_load_relaxed(address) }

    @inlinable @inline(__always)
    package func store(_ value: UInt64) { divan_store_relaxed(address, value) }

    @inlinable @inline(__always)
    package func loadAcquire() -> UInt64 { divan_load_acquire(address) }

    @inlinable @inline(__always)
    package func storeRelease(_ value: UInt64) { divan_store_release(address, value) }

    /// Adds and returns the sum.
    @inlinable @inline(__always) @discardableResult
    package func add(_ value: Int) -> UInt64 {
        divan_add_relaxed(address, UInt64(bitPattern: Int64(value)))
    }
}

/// Asks the processor for cache lines ahead of their use; a stale address is harmless.
@inlinable @inline(__always)
package func prefetch(_ address: UnsafeRawPointer) { divan_prefetch(address) }
