internal import Bytes
internal import CLinux

/// The threads that run Swift's tasks (`async` functions), in place of libdispatch's global queues.
///
/// libdispatch opens a file of `/proc` for each of its threads once a second, and ends the process if that
/// fails for want of a descriptor. These threads open nothing, and their number does not change: without
/// descriptors, memory for stacks or threads, tasks continue.
///
/// - A task with an executor of its own (an event loop, `Lane.asExecutor`) never comes here.
/// - Jobs run in the order in which they became ready. A job that blocks occupies a thread, so blocking work
///   belongs on a lane or on `WorkExecutor`.
package enum TaskThreads {
    /// Enough that a request is served beside a few that compute.
    package static let countMin = 4

    private static let pool = Guarded<TaskPool?>(nil)

    /// Makes Swift's tasks run on threads of their own, until the process ends; later calls have no effect.
    ///
    /// - Parameter count: The number of threads; nil for one for each processor, at least `countMin`.
    package static func start(count: Int? = nil) {
        pool.withLock { pool in
            guard pool == nil else { return }
            let count = count ?? max(countMin, Int(divan_processors()))
            let made = TaskPool(threads: count)
            pool = made
            divan_queue_jobs(
                { context, job, nanoseconds in
                    guard let context, let job else { return }
                    let pool = Unmanaged<TaskPool>.fromOpaque(context).takeUnretainedValue()
                    pool.add(TaskPool.Job(pointer: job), after: nanoseconds)
                },
                Unmanaged.passUnretained(made).toOpaque()
            )
        }
    }

    /// Whether the calling thread is one of these.
    package static var isCurrent: Bool { pool.withLock { $0?.isCurrent ?? false } }
}

/// The jobs that are ready, and the threads that run them.
private final class TaskPool: @unchecked Sendable {  // tidy:allow its monitor is the proof
    /// A job of the runtime, which is run once.
    struct Job: @unchecked Sendable {  // tidy:allow the runtime passes each job to one owner
        let pointer: UnsafeMutableRawPointer
    }

    private let monitor = Monitor()
    /// Jobs before `head` have been run.
    private var jobs: [Job] = []
    private var head = 0
    private var idleCount = 0
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

    func add(_ job: Job, after nanoseconds: UInt64) {
        if nanoseconds == 0 {
            add(job)
        } else {
            timers.post(after: nanoseconds) { [self] in add(job) }
        }
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
