internal import Bytes
internal import CLinux
// The runtime asks such a factory for its executors; in Swift 6.3 these protocols are not public yet.
@_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) internal import _Concurrency

/// The threads that run Swift's tasks (`async` functions), in place of libdispatch's global queues.
///
/// libdispatch opens a file of `/proc` for each of its threads once a second, and ends the process if that
/// fails for want of a descriptor. These threads open nothing, and their number does not change: without
/// descriptors, memory for stacks or threads, tasks continue.
///
/// - A task with an executor of its own (an event loop, `Lane.asExecutor`) never comes here; its sleeps do.
/// - Jobs run in the order in which they became ready. A job that blocks occupies a thread, so blocking work
///   belongs on a lane or on `WorkExecutor`.
package enum TaskThreads {
    /// Enough that a request is served beside a few that compute.
    package static let countMin = 4

    /// The runtime's executors: its own for the main thread, and ours for all other tasks.
    private enum Factory: ExecutorFactory {
        static var mainExecutor: any MainExecutor { PlatformExecutorFactory.mainExecutor }
        static let pool = TaskPool(threads: max(TaskThreads.countMin, Int(divan_processors())))
        static var defaultExecutor: any TaskExecutor { pool }
    }

    private static let isStarted = Guarded(false)

    /// Makes Swift's tasks run on threads of their own, until the process ends; later calls have no effect.
    ///
    /// The first call must come before a task sleeps.
    package static func start() {
        isStarted.withLock { isStarted in
            guard !isStarted else { return }
            isStarted = true
            _createExecutors(factory: Factory.self)
        }
    }

    /// Whether the calling thread is one of these.
    package static var isCurrent: Bool { isStarted.withLock { $0 } && Factory.pool.isCurrent }

    /// The sleeps of tasks that have begun.
    package static var timerCount: UInt64 { Factory.pool.timerCount }
}

/// The jobs that are ready, and the threads that run them.
private final class TaskPool: TaskExecutor, SchedulingExecutor,
    @unchecked Sendable  // tidy:allow its monitor is the proof
{
    /// A job of the runtime, which is run once.
    private struct Job: @unchecked Sendable {  // tidy:allow the runtime passes it to one owner
        let pointer: UnsafeMutableRawPointer

        init(_ job: consuming ExecutorJob) {
            pointer = unsafeBitCast(UnownedJob(job), to: UnsafeMutableRawPointer.self)
        }
    }

    private let monitor = Monitor()
    /// Jobs before `head` have been run.
    private var jobs: [Job] = []
    private var head = 0
    private var idleCount = 0
    private var timerNumbers: UInt64 = 0
    private var threads: [SystemThread] = []
    /// Waits for the jobs that begin later.
    private let timers = ThreadLane("task-timers")

    init(threads count: Int) {
        monitor.acquire()
        threads = (0..<count).map { number in SystemThread("tasks-\(number)") { self.run() } }
        monitor.release()
    }

    var isCurrent: Bool {
        monitor.acquire()
        defer { monitor.release() }
        return threads.contains { $0.isCurrent }
    }

    func enqueue(_ job: consuming ExecutorJob) { add(Job(job)) }

    func enqueue<C: Clock>(
        _ job: consuming ExecutorJob,
        after delay: C.Duration,
        tolerance: C.Duration?,
        clock: C
    ) {
        let job = Job(job)
        // Both clocks of the standard library have it; a delay of another clock has no length here.
        guard let delay = delay as? Duration else {
            preconditionFailure("tasks sleep by ContinuousClock or SuspendingClock")
        }
        let (seconds, attoseconds) = delay.components
        // At most a century.
        let nanoseconds = min(max(seconds, 0), 1 << 32) * 1_000_000_000
        monitor.acquire()
        timerNumbers += 1
        monitor.release()
        timers.post(after: UInt64(max(0, nanoseconds + attoseconds / 1_000_000_000))) { [self] in
            add(job)
        }
    }

    /// The sleeps that have begun.
    var timerCount: UInt64 {
        monitor.acquire()
        defer { monitor.release() }
        return timerNumbers
    }

    private func add(_ job: Job) {
        monitor.acquire()
        jobs.append(job)
        if idleCount > 0 { monitor.signal() }
        monitor.release()
    }

    private func run() {
        monitor.acquire()
        while true {
            if let job = next() {
                monitor.release()
                divan_run_job(job.pointer)
                monitor.acquire()
            } else {
                idleCount += 1
                monitor.wait(until: nil)
                idleCount -= 1
            }
        }
    }

    private func next() -> Job? {
        guard head < jobs.count else { return nil }
        let job = jobs[head]
        head += 1
        if head == jobs.count {
            jobs.removeAll(keepingCapacity: jobs.capacity <= 1_024)
            head = 0
        } else if head >= 1_024, head * 2 >= jobs.count {
            jobs.removeFirst(head)
            head = 0
        }
        return job
    }
}
