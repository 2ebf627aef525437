internal import Bytes
package import Seams

/// Lanes of another factory whose work a test observes or holds before it is posted.
package final class TappedLanes: LaneFactory {
    package typealias Work = @Sendable () -> Void
    /// Receives the other factory's lane and the work posted to it, delayed work included.
    ///
    /// Returns what to post; nil if the closure has posted the work.
    package typealias Tap = @Sendable (_ lane: any Lane, _ work: @escaping Work) -> Work?

    private struct State {
        var held: Set<String> = []
        var waiting: [(lane: any Lane, work: Work)] = []
    }

    private let base: any LaneFactory
    private let tap: Tap
    private let state = Guarded(State())

    /// Lanes of `base`; `tap` is called on the thread that posts.
    package init(over base: any LaneFactory, _ tap: @escaping Tap = { _, work in work }) {
        self.base = base
        self.tap = tap
    }

    package var reactorCount: Int { base.reactorCount }

    package func makeLane(_ name: String, isPatient: Bool) -> any Lane {
        TappedLane(base.makeLane(name, isPatient: isPatient), self)
    }

    /// Lanes of this name store their work until `releaseAll`, like a disk that does not respond.
    package func hold(_ name: String) { state.withLock { _ = $0.held.insert(name) } }

    /// Posts all stored work in its order.
    package func releaseAll() {
        state.withLock { state in
            for (lane, work) in state.waiting { lane.post(work) }
            state = State()
        }
    }

    fileprivate func filter(_ work: @escaping Work, on lane: any Lane) -> Work? {
        guard let work = tap(lane, work) else { return nil }
        return state.withLock { state in
            guard state.held.contains(lane.name) else { return work }
            state.waiting.append((lane, work))
            return nil
        }
    }
}

private final class TappedLane: Lane {
    private let base: any Lane
    private let lanes: TappedLanes

    init(_ base: any Lane, _ lanes: TappedLanes) {
        self.base = base
        self.lanes = lanes
    }

    var name: String { base.name }

    func post(_ work: @escaping @Sendable () -> Void) {
        if let work = lanes.filter(work, on: base) { base.post(work) }
    }

    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        guard let work = lanes.filter(work, on: base) else { return LaneTimer {} }
        return base.post(after: nanoseconds, work)
    }

    func stop() { base.stop() }
}
