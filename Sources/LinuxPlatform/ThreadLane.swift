internal import Bytes
internal import CLinux
package import Seams

/// A lane with its own thread.
///
/// - Posting signals the thread only if it sleeps; an idle lane never wakes up.
/// - Work posted after `stop` began is dropped: a lane is stopped after the components that post to
///   it.
package final class ThreadLane: Lane, @unchecked Sendable {  // tidy:allow its monitor is the proof
    package let name: String
    private let monitor = Monitor()
    private var queue = WorkQueue()
    private var isAsleep = false
    /// When the thread wakes up by itself, if it is asleep.
    private var sleepsUntil = UInt64.max
    private var isStopping = false
    private var thread: SystemThread?

    /// The niceness of a patient lane's thread, a third of the weight of a normal one.
    ///
    /// With less weight busy reactors would starve it, and unpersisted changes would grow old.
    private static let patientNiceness: Int32 = 5

    /// Makes a lane that the process cannot do without.
    package convenience init(_ name: String, isPatient: Bool = false) {
        self.init(named: name)
        let isStarted = start(isPatient: isPatient)
        precondition(isStarted, "the system refused the thread '\(name)': \(SystemThread.cure)")
    }

    /// Makes a lane; nil if the system refuses its thread.
    convenience init?(ifPossible name: String, isPatient: Bool) {
        self.init(named: name)
        guard start(isPatient: isPatient) else { return nil }
    }

    private init(named name: String) { self.name = name }

    private func start(isPatient: Bool) -> Bool {
        monitor.acquire()
        defer { monitor.release() }
        thread = SystemThread(ifPossible: name) {
            if isPatient { divan_lower_priority(ThreadLane.patientNiceness) }
            self.run()
        }
        return thread != nil
    }

    var isCurrent: Bool {
        monitor.acquire()
        defer { monitor.release() }
        return thread?.isCurrent ?? false
    }

    package func post(_ work: @escaping @Sendable () -> Void) {
        monitor.acquire()
        defer { monitor.release() }
        guard !isStopping else { return }
        queue.post(work)
        wakeIfAsleep()
    }

    @discardableResult
    package func post(
        after nanoseconds: UInt64,
        _ work: @escaping @Sendable () -> Void
    ) -> LaneTimer {
        let deadline = LinuxClock.waitingNanoseconds() + nanoseconds
        monitor.acquire()
        defer { monitor.release() }
        guard !isStopping else { return LaneTimer {} }
        let number = queue.post(at: deadline, work)
        // Most timers are deadlines that are cancelled: a thread that wakes up early enough, if only for
        // a timer that was cancelled, is not woken for a later one.
        if queue.nextDeadline() == deadline, deadline < sleepsUntil { wakeIfAsleep() }
        return LaneTimer { [weak self] in self?.cancel(number) }
    }

    package func stop() {
        monitor.acquire()
        isStopping = true
        wakeIfAsleep()
        let joining = thread
        thread = nil
        monitor.release()
        joining?.join()
    }

    private func cancel(_ number: UInt64) {
        monitor.acquire()
        defer { monitor.release() }
        queue.cancel(number)
    }

    private func wakeIfAsleep() {
        guard isAsleep else { return }
        isAsleep = false
        monitor.signal()
    }

    private func run() {
        monitor.acquire()
        while true {
            if let work = queue.next(now: LinuxClock.waitingNanoseconds()) {
                monitor.release()
                work()
                monitor.acquire()
            } else if isStopping {
                break
            } else {
                let deadline = queue.nextDeadline()
                isAsleep = true
                sleepsUntil = deadline ?? .max
                monitor.wait(until: deadline)
                isAsleep = false
            }
        }
        // Work that never runs may have the last reference to an object whose deinit stops a lane,
        // so it is released outside the lock.
        let dropped = queue
        queue = WorkQueue()
        monitor.release()
        _ = dropped
    }
}

/// Makes lanes that are threads; if the system refuses one, its work runs on a thread that exists.
package struct LinuxLanes: LaneFactory {
    package let reactorCount: Int
    private let trace: (any Trace)?
    /// Made at once: it must exist when no thread can be made.
    private let spare = ThreadLane("spare")

    package init(reactorCount: Int, trace: (any Trace)? = nil) {
        self.reactorCount = reactorCount
        self.trace = trace
    }

    package func makeLane(_ name: String, isPatient: Bool) -> any Lane {
        if let lane = ThreadLane(ifPossible: name, isPatient: isPatient) { return lane }
        trace?.warning(
            "environment",
            "the system refused the thread '\(name)', and its work shares another one and is slow: "
                + SystemThread.cure
        )
        return SharedLane(name, on: spare)
    }
}

/// A lane without a thread of its own: for a node that may not have more threads.
///
/// Its work runs on a lane that others use too, in order, so that nothing fails and everything is slower.
final class SharedLane: Lane {
    let name: String
    private let host: ThreadLane
    private let isStopped = Guarded(false)

    init(_ name: String, on host: ThreadLane) {
        self.name = name
        self.host = host
    }

    func post(_ work: @escaping @Sendable () -> Void) {
        guard !isStopped.withLock({ $0 }) else { return }
        host.post(work)
    }

    @discardableResult
    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        host.post(after: nanoseconds) { [self] in
            if !isStopped.withLock({ $0 }) { work() }
        }
    }

    /// Waits for the work that was posted before, unless it is called on the thread that runs it.
    func stop() {
        isStopped.withLock { $0 = true }
        guard !host.isCurrent else { return }
        let end = Gate(count: 1)
        host.post { end.pass() }
        end.wait()
    }
}
