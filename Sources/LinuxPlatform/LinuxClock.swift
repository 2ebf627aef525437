internal import CLinux
internal import Glibc
internal import Seams

/// The system's clocks.
package struct LinuxClock: TimeSource {
    package init() {}

    package func monotonicNanoseconds() -> UInt64 { LinuxClock.read(CLOCK_BOOTTIME) }

    package func wallNanoseconds() -> UInt64 { divan_wall_nanoseconds() }

    package var wallFunction: (@convention(c) () -> UInt64)? { divan_wall_nanoseconds }

    /// The clock of deadlines; like the kernel's waits it stops while the machine is suspended.
    static func waitingNanoseconds() -> UInt64 { read(CLOCK_MONOTONIC) }

    private static func read(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        let code = clock_gettime(clock, &time)
        precondition(code == 0, "the system has no clock \(clock)")
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
