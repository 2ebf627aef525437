internal import Bytes
package import Seams

/// One run queue for all lanes: work runs when the test calls `runOne`, in the order of its
/// deadlines.
///
/// A test can hold lanes, to observe what happens while their work is under way. If the lanes run
/// posted work at once, only delayed work waits for the test.
package final class ManualLanes: LaneFactory {
    fileprivate struct Entry {
        let deadline: UInt64
        let delay: UInt64
        let number: UInt64
        let lane: String
        let work: @Sendable () -> Void
    }

    fileprivate struct State {
        var entries: [Entry] = []
        var lastNumber: UInt64 = 0
        var held: Set<String> = []
        var posted: [@Sendable () -> Void] = []
        var isRunningPosted = false
    }

    package let reactorCount: Int
    fileprivate let runsPostedAtOnce: Bool
    private let time: ManualTime
    private let state = Guarded(State())

    /// Lanes without work.
    ///
    /// - Parameters:
    ///   - reactorCount: The number of reactors that the environment has.
    ///   - time: The clock of the deadlines.
    ///   - runsPostedAtOnce: Whether posted work runs before the post returns, after the work that
    ///     runs already.
    package init(reactorCount: Int = 1, time: ManualTime, runsPostedAtOnce: Bool = false) {
        self.reactorCount = reactorCount
        self.time = time
        self.runsPostedAtOnce = runsPostedAtOnce
    }

    package func makeLane(_ name: String, isPatient: Bool) -> any Lane { ManualLane(name, self) }

    /// Lanes whose names begin with `prefix` run nothing until they are released.
    package func hold(_ prefix: String) { state.withLock { _ = $0.held.insert(prefix) } }

    package func release(_ prefix: String) { state.withLock { _ = $0.held.remove(prefix) } }

    /// Whether lanes with such a name have work that is due.
    package func isBusy(_ prefix: String) -> Bool {
        let now = time.monotonicNanoseconds()
        return state.withLock { state in
            state.entries.contains { $0.lane.hasPrefix(prefix) && $0.deadline <= now }
        }
    }

    /// The number of pieces of work that lanes with such a name have, due or not.
    package func pending(_ prefix: String) -> Int {
        state.withLock { $0.entries.count { $0.lane.hasPrefix(prefix) } }
    }

    // MARK: Work that runs at once

    fileprivate func run(_ work: @escaping @Sendable () -> Void) {
        let isFirst = state.withLock { state in
            state.posted.append(work)
            defer { state.isRunningPosted = true }
            return !state.isRunningPosted
        }
        guard isFirst else { return }
        while let next = removeFirstPosted() { next() }
    }

    private func removeFirstPosted() -> (@Sendable () -> Void)? {
        state.withLock { state in
            guard state.posted.isEmpty else { return state.posted.removeFirst() }
            state.isRunningPosted = false
            return nil
        }
    }

    /// Runs all delayed work in the order of its posts, due or not, without work that it posts.
    package func runTimers() {
        let entries = state.withLock { state in
            defer { state.entries = [] }
            return state.entries
        }
        for entry in entries { run(entry.work) }
    }

    /// The number of pieces of work that were posted with this delay and have not run.
    package func timerCount(nanoseconds: UInt64) -> Int {
        state.withLock { $0.entries.count { $0.delay == nanoseconds } }
    }

    // MARK: Work that waits

    fileprivate func post(
        after nanoseconds: UInt64,
        on lane: String,
        _ work: @escaping @Sendable () -> Void
    ) -> UInt64 {
        let deadline = time.monotonicNanoseconds() + nanoseconds
        return state.withLock { state in
            state.lastNumber += 1
            let entry = Entry(
                deadline: deadline,
                delay: nanoseconds,
                number: state.lastNumber,
                lane: lane,
                work: work
            )
            state.entries.append(entry)
            return state.lastNumber
        }
    }

    fileprivate func cancel(_ number: UInt64) {
        state.withLock { state in state.entries.removeAll { $0.number == number } }
    }

    fileprivate func drop(lane: String) {
        state.withLock { state in state.entries.removeAll { $0.lane == lane } }
    }

    /// Runs the first piece of work that is due; false if there is none.
    package func runOne() -> Bool {
        let now = time.monotonicNanoseconds()
        let work: (@Sendable () -> Void)? = state.withLock { state in
            let index = State.first(of: state.entries, state.held) { $0.deadline <= now }
            return index.map { state.entries.remove(at: $0).work }
        }
        work?()
        return work != nil
    }

    /// When the next work is due, of lanes that are not held.
    package var nextDeadline: UInt64? {
        state.withLock { state in
            State.first(of: state.entries, state.held) { _ in true }
                .map { state.entries[$0].deadline }
        }
    }
}

extension ManualLanes.State {
    fileprivate static func first(
        of entries: [ManualLanes.Entry],
        _ held: Set<String>,
        where isWanted: (ManualLanes.Entry) -> Bool
    ) -> Int? {
        var first: Int?
        for (index, entry) in entries.enumerated() where isWanted(entry) {
            if let before = first,
                (entries[before].deadline, entries[before].number) < (entry.deadline, entry.number)
            {
                continue
            }
            if held.contains(where: { entry.lane.hasPrefix($0) }) { continue }
            first = index
        }
        return first
    }
}

/// One lane of the run queue.
private final class ManualLane: Lane {
    let name: String
    private let lanes: ManualLanes

    init(_ name: String, _ lanes: ManualLanes) {
        self.name = name
        self.lanes = lanes
    }

    func post(_ work: @escaping @Sendable () -> Void) {
        if lanes.runsPostedAtOnce { return lanes.run(work) }
        _ = lanes.post(after: 0, on: name, work)
    }

    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        let number = lanes.post(after: nanoseconds, on: name, work)
        return LaneTimer { [lanes] in lanes.cancel(number) }
    }

    /// Lanes that run posted work at once keep their timers: a restarted service has lanes of the
    /// same names.
    func stop() { if !lanes.runsPostedAtOnce { lanes.drop(lane: name) } }
}
