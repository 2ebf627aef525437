internal import Bytes
internal import Orchestration
internal import Seams

/// Who waits for the next change of what clients see, and how many changes there were.
///
/// Watchers hold a number, not a queue: one that comes late, or reads slowly, learns that something
/// changed and looks at the state as it is, so nothing piles up for it.
struct ChangeWatch {
    private(set) var changes: UInt64 = 0
    private var waiters: [UInt64: UnsafeContinuation<Void, Never>] = [:]
    private var nextWaiter: UInt64 = 0

    mutating func add(_ waiter: UnsafeContinuation<Void, Never>) -> UInt64 {
        nextWaiter += 1
        waiters[nextWaiter] = waiter
        return nextWaiter
    }

    mutating func remove(_ waiter: UInt64) -> UnsafeContinuation<Void, Never>? {
        waiters.removeValue(forKey: waiter)
    }

    /// Counts a change and hands over all who waited for one.
    mutating func change() -> [UnsafeContinuation<Void, Never>] {
        changes += 1
        defer { waiters = [:] }
        return Array(waiters.values)
    }
}

extension AdministrationService {
    /// How many changes of what clients see there were since this process began.
    package var changes: UInt64 { core.withLock { $0.watch.changes } }

    /// Waits until there were more than `seen` changes, but no longer than `nanoseconds`.
    ///
    /// - Returns: How many changes there were by then.
    package func waitForChange(after seen: UInt64, nanoseconds: UInt64) async -> UInt64 {
        await withUnsafeContinuation { (waiter: UnsafeContinuation<Void, Never>) in
            let id: UInt64? = core.withLock { core in
                guard core.isServing, core.watch.changes == seen else { return nil }
                return core.watch.add(waiter)
            }
            guard let id else { return waiter.resume() }
            // Not cancelled when a change comes first: a timer that finds nobody does nothing.
            lane.post(after: nanoseconds) { [weak self] in
                self?.core.withLock { $0.watch.remove(id) }?.resume()
            }
        }
        return changes
    }

    /// Waits until the state is as it should be; false where that takes too long.
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

    func tellWatchers() {
        let waiters = core.withLock { $0.watch.change() }
        for waiter in waiters { waiter.resume() }
    }
}
