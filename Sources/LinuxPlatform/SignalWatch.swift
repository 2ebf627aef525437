internal import CLinux
internal import Glibc

/// Calls back when the process is asked to end, on a thread of its own, where everything is allowed.
///
/// The signal handler writes a byte into a pipe and the thread reads it: unlike a blocked signal
/// this does not depend on who started threads before, and child processes inherit nothing. A
/// process has one watch, for its whole life.
package final class SignalWatch: Sendable {
    /// The signals that ask a server to end; SIGHUP comes when its terminal closes, and counts
    /// unless the process was started to ignore it (nohup).
    package static let endings = [SIGTERM, SIGINT, SIGHUP]

    private let thread: SystemThread

    /// Watches for `signals`; `received` is called for each that comes, one at a time.
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
