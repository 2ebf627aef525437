internal import NIOCore

/// Runs the tasks of a connection on the connection's event loop.
///
/// A task that runs there sends and receives without another thread. While it runs, the loop's other
/// connections wait, so its steps must be short and few: the loop runs all tasks that are ready before it
/// looks for input again. Long responses therefore run on Swift's own threads, and large bodies are parsed on
/// those of `WorkExecutor` (`ViewQueryRoutes`).
final class LoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    init(_ loop: any EventLoop) {
        self.loop = loop
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}
