internal import Bytes
internal import Glibc

/// A mutex with a condition variable, on which an idle lane waits.
final class Monitor: @unchecked Sendable {  // tidy:allow a mutex is for sharing
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>

    init() {
        mutex = .allocate(capacity: 1)
        condition = .allocate(capacity: 1)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        // Unlike the wall clock, the monotonic clock never jumps.
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        let codes = (pthread_mutex_init(mutex, nil), pthread_cond_init(condition, &attributes))
        precondition(codes == (0, 0), "a monitor could not be initialized: errors \(codes)")
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    func acquire() { pthread_mutex_lock(mutex) }

    func release() { pthread_mutex_unlock(mutex) }

    func signal() { pthread_cond_signal(condition) }

    /// Waits for a signal, at most until `deadline` on the lanes' clock; may return spuriously.
    func wait(until deadline: UInt64?) {
        guard let deadline else {
            pthread_cond_wait(condition, mutex)
            return
        }
        var time = timespec(
            tv_sec: Int(clamping: deadline / 1_000_000_000),
            tv_nsec: Int(deadline % 1_000_000_000)
        )
        pthread_cond_timedwait(condition, mutex, &time)
    }
}
