import Bytes
import Glibc

/// Blocking work on a separate thread, since it must not block the threads of Swift's concurrency.
final class InBackground: Sendable {
    private let outcome = Guarded<Result<Void, any Error>?>(nil)

    init(_ work: @escaping @Sendable () throws -> Void) {
        let run = Run { [outcome] in
            let result = Result(catching: work)
            outcome.withLock { $0 = result }
        }
        var thread = pthread_t()
        let context = Unmanaged.passRetained(run).toOpaque()
        pthread_create(
            &thread,
            nil,
            { context in
                if let context { Unmanaged<Run>.fromOpaque(context).takeRetainedValue().work() }
                return nil
            },
            context
        )
        pthread_detach(thread)
    }

    /// Waits at most a minute for the end of the work.
    ///
    /// - Throws: The work's error, or `TookTooLong`.
    func wait() throws {
        for _ in 0..<60_000 {
            if let result = outcome.withLock({ $0 }) { return try result.get() }
            usleep(1_000)
        }
        throw TookTooLong()
    }

    func forget() {}

    struct TookTooLong: Error {}

    private final class Run {
        let work: () -> Void
        init(_ work: @escaping () -> Void) { self.work = work }
    }
}

/// Usually long enough that the peer receives one piece alone; no test depends on it.
func usleepShortly() { usleep(2_000) }

/// Several of these exceed a timeout of a second.
func usleepLong() { usleep(150_000) }

/// Blocks the thread.
func pauseThread(microseconds: UInt32) { usleep(microseconds) }
