internal import NIOPosix

/// Runs tasks with long computations on threads that serve no connection.
///
/// On an event loop, such a computation would stall the loop's other connections; on Swift's threads, of which
/// there are as many as cores, a few of them would stall the requests of all ports. What exceeds these threads,
/// as many as cores too, waits for them.
final class WorkExecutor: TaskExecutor {
    static let shared = WorkExecutor()

    private let threads = NIOThreadPool.singleton

    private init() {}

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // The pool of the process is never shut down, so that it runs every item.
        threads.submit { [self] _ in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
