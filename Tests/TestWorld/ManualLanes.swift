internal import Bytes
package import Seams

/// Time that stands still until a test moves it.
package final class ManualTime: TimeSource {
    private let passed = Guarded<UInt64>(1_000_000_000)
    /// A Tuesday in November 2023.
    private static let epoch: UInt64 = 1_700_000_000_000_000_000

    private let interruption = Guarded<(@Sendable () -> Void)?>(nil)

    package init() {}

    /// Calls `body` once, within the next reading of the wall clock: in the middle of a work item.
    package func interruptNextReading(_ body: @escaping @Sendable () -> Void) {
        interruption.withLock { $0 = body }
    }

    package func monotonicNanoseconds() -> UInt64 { passed.withLock { $0 } }

    package func wallNanoseconds() -> UInt64 {
        let body: (@Sendable () -> Void)? = interruption.withLock { interruption in
            defer { interruption = nil }
            return interruption
        }
        body?()
        return ManualTime.epoch + monotonicNanoseconds()
    }

    package var seconds: UInt32 { UInt32(wallNanoseconds() / 1_000_000_000) }

    package func advance(to nanoseconds: UInt64) {
        passed.withLock { $0 = max($0, nanoseconds) }
    }
}

/// One run queue for all lanes: work runs when the test says so, in the order of its deadlines.
///
/// A test can hold lanes back, to see what happens while their work is under way.
package final class ManualLanes: LaneFactory {
    fileprivate struct Entry {
        let deadline: UInt64
        let number: UInt64
        let lane: String
        let work: @Sendable () -> Void
    }

    fileprivate struct State {
        var entries: [Entry] = []
        var lastNumber: UInt64 = 0
        var held: Set<String> = []
    }

    package let reactorCount: Int
    private let time: ManualTime
    private let state = Guarded(State())

    package init(reactorCount: Int, time: ManualTime) {
        self.reactorCount = reactorCount
        self.time = time
    }

    package func makeLane(_ name: String, isPatient: Bool) -> any Lane { ManualLane(name, self) }

    /// Lanes whose names begin with `prefix` do nothing until they are released.
    package func hold(_ prefix: String) { state.withLock { _ = $0.held.insert(prefix) } }

    package func release(_ prefix: String) { state.withLock { _ = $0.held.remove(prefix) } }

    /// Whether lanes with such a name have work that is due.
    package func isBusy(_ prefix: String) -> Bool {
        let now = time.monotonicNanoseconds()
        return state.withLock { state in
            state.entries.contains { $0.lane.hasPrefix(prefix) && $0.deadline <= now }
        }
    }

    /// How many pieces of work lanes with such a name have, due or not.
    package func pending(_ prefix: String) -> Int {
        state.withLock { $0.entries.count { $0.lane.hasPrefix(prefix) } }
    }

    func post(after nanoseconds: UInt64, on lane: String, _ work: @escaping @Sendable () -> Void)
        -> UInt64
    {
        let deadline = time.monotonicNanoseconds() + nanoseconds
        return state.withLock { state in
            state.lastNumber += 1
            let entry = Entry(
                deadline: deadline,
                number: state.lastNumber,
                lane: lane,
                work: work
            )
            state.entries.append(entry)
            return state.lastNumber
        }
    }

    func cancel(_ number: UInt64) {
        state.withLock { state in state.entries.removeAll { $0.number == number } }
    }

    func drop(lane: String) {
        state.withLock { state in state.entries.removeAll { $0.lane == lane } }
    }

    /// Runs the first piece of work that is due; false where there is none.
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
        _ = lanes.post(after: 0, on: name, work)
    }

    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        let number = lanes.post(after: nanoseconds, on: name, work)
        return LaneTimer { [lanes] in lanes.cancel(number) }
    }

    func stop() { lanes.drop(lane: name) }
}
