internal import Bytes
internal import Orchestration
internal import Seams

/// Waits for the next change that clients can see, and counts such changes.
///
/// A watcher keeps a number, not a queue: if it is slow, it learns only that something changed and
/// reads the current state, so nothing accumulates for it.
struct StateWatch {
    /// One waiting call.
    private struct Waiter {
        let continuation: UnsafeContinuation<Void, Never>
        /// Ends the wait; nil until it is set.
        var timer: LaneTimer?
    }

    private(set) var changes: UInt64 = 0
    /// Called after every change of the state, also of those that no client sees; nil if nothing of
    /// the node depends on it.
    var stateObserver: (@Sendable () -> Void)?
    /// Called after every change that clients can see, and at the stop; they only wake their owners.
    private(set) var observers: [UInt64: @Sendable () -> Void] = [:]
    private var waiters: [UInt64: Waiter] = [:]
    private var nextWaiter: UInt64 = 0

    mutating func add(_ waiter: UnsafeContinuation<Void, Never>) -> UInt64 {
        nextWaiter += 1
        waiters[nextWaiter] = Waiter(continuation: waiter)
        return nextWaiter
    }

    /// Notes the timer of a waiter, which a change cancels.
    ///
    /// - Returns: False if the waiter was woken already.
    mutating func set(_ timer: LaneTimer, of waiter: UInt64) -> Bool {
        guard waiters[waiter] != nil else { return false }
        waiters[waiter]?.timer = timer
        return true
    }

    mutating func remove(_ waiter: UInt64) -> UnsafeContinuation<Void, Never>? {
        waiters.removeValue(forKey: waiter)?.continuation
    }

    mutating func observe(_ observer: @escaping @Sendable () -> Void) -> UInt64 {
        nextWaiter += 1
        observers[nextWaiter] = observer
        return nextWaiter
    }

    mutating func removeObserver(_ number: UInt64) { observers[number] = nil }

    /// Counts a change, and returns what wakes all waiters and observers.
    mutating func change() -> [@Sendable () -> Void] {
        changes += 1
        defer { waiters = [:] }
        let woken: [@Sendable () -> Void] = waiters.values.map { waiter in
            { @Sendable in
                waiter.timer?.cancel()
                waiter.continuation.resume()
            }
        }
        return woken + Array(observers.values)
    }
}

extension Cluster {
    /// How many changes clients could see since this process started.
    package var changes: UInt64 { core.withLock { $0.watch.changes } }

    /// Waits until there were more than `seen` changes, at most for `nanoseconds`.
    ///
    /// - Returns: The number of changes by then.
    package func waitForChange(after seen: UInt64, nanoseconds: UInt64) async -> UInt64 {
        await withUnsafeContinuation { (waiter: UnsafeContinuation<Void, Never>) in
            let id: UInt64? = core.withLock { core in
                guard core.isServing, core.watch.changes == seen else { return nil }
                return core.watch.add(waiter)
            }
            guard let id else { return waiter.resume() }
            let timer = lane.post(after: nanoseconds) { [weak self] in
                self?.core.withLock { $0.watch.remove(id) }?.resume()
            }
            let isWaiting = core.withLock { $0.watch.set(timer, of: id) }
            if !isWaiting { timer.cancel() }
        }
        return changes
    }

    /// Waits until the state meets a condition; false at the deadline.
    func whenChanged(
        within nanoseconds: UInt64,
        until isThere: (ClusterState) -> Bool
    ) async -> Bool {
        let deadline = environment.time.monotonicNanoseconds() + nanoseconds
        while true {
            let seen = changes
            if isThere(state) { return true }
            let now = environment.time.monotonicNanoseconds()
            guard now < deadline, isServing else { return false }
            _ = await waitForChange(after: seen, nanoseconds: deadline - now)
        }
    }

    func wakeWatchers() {
        let wakes = core.withLock { $0.watch.change() }
        for wake in wakes { wake() }
    }

    /// Calls `observer` after every change that clients can see, and at the stop.
    ///
    /// The observer is called on the control lane and only wakes its owner.
    func observeChanges(_ observer: @escaping @Sendable () -> Void) -> UInt64 {
        core.withLock { $0.watch.observe(observer) }
    }

    func removeObserver(_ number: UInt64) { core.withLock { $0.watch.removeObserver(number) } }
}
