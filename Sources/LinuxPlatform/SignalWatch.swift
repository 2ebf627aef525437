internal import Glibc

/// Calls back when the process is asked to end, on a thread of its own, where everything is allowed.
///
/// The signals are blocked in the thread that makes the watch and in all threads it starts later,
/// so make it first in `main`. A child process inherits the blocking unless it is started with a
/// signal mask of its own.
package final class SignalWatch: Sendable {
    /// The signals that ask a server to end.
    package static let endings = [SIGTERM, SIGINT]

    private let thread: SystemThread

    /// Watches for `signals`; `received` is called for each that comes, one at a time.
    package init(
        _ signals: [Int32] = SignalWatch.endings,
        received: @escaping @Sendable (Int32) -> Void
    ) {
        var mask = sigset_t()
        sigemptyset(&mask)
        for signal in signals { sigaddset(&mask, signal) }
        let watched = mask
        pthread_sigmask(SIG_BLOCK, &mask, nil)
        thread = SystemThread("signals") {
            var watched = watched
            while true {
                var signal: Int32 = 0
                if sigwait(&watched, &signal) == 0 { received(signal) }
            }
        }
    }
}
