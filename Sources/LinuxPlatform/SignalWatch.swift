internal import CLinux
internal import Glibc

/// The signals that ask a process to end, for a thread that waits for them.
///
/// A process has one of these or a `SignalWatch`, for its lifetime.
package struct EndingSignals {
    private let pipe: Int32

    /// From now on these signals do not end the process; `wait` returns instead.
    package init() {
        pipe = divan_signal_pipe(SignalWatch.endings, Int32(SignalWatch.endings.count))
        precondition(pipe >= 0, "a process watches its signals once: error \(errno)")
    }

    /// Waits for the first signal since the start.
    package func wait() {
        var number: UInt8 = 0
        while read(pipe, &number, 1) != 1 {}
    }
}

/// Calls a closure on a separate thread when a signal asks the process to end.
///
/// The signal handler writes a byte to a pipe, which the thread reads. Unlike blocked signals this
/// does not depend on threads that were started before, and child processes inherit nothing. A
/// process has one watch for its lifetime.
package final class SignalWatch: Sendable {
    /// The signals that ask a server to end.
    ///
    /// SIGHUP is sent when the terminal closes; it is not watched if the process was started with
    /// it ignored (nohup).
    package static let endings = [SIGTERM, SIGINT, SIGHUP]

    private let thread: SystemThread

    /// Watches `signals`; `received` is called for each signal, one at a time.
    package init(
        _ signals: [Int32] = SignalWatch.endings,
        received: @escaping @Sendable (Int32) -> Void
    ) {
        let pipe = divan_signal_pipe(signals, Int32(signals.count))
        precondition(pipe >= 0, "a process watches its signals once: error \(errno)")
        thread = SystemThread("signals") {
            while true {
                var number: UInt8 = 0
                if read(pipe, &number, 1) == 1 { received(Int32(number)) }
            }
        }
    }
}
