import Bytes
import Seams

/// Lanes of which one runs nothing while it is held, like a disk that does not respond.
final class HeldLanes: LaneFactory {
    private struct State {
        var isHeld = false
        var waiting: [(any Lane, @Sendable () -> Void)] = []
    }

    private let base: any LaneFactory
    private let name: String
    private let state = Guarded(State())

    init(of base: any LaneFactory, named name: String) {
        self.base = base
        self.name = name
    }

    var reactorCount: Int { base.reactorCount }

    func makeLane(_ name: String, isPatient: Bool) -> any Lane {
        let lane = base.makeLane(name, isPatient: isPatient)
        return name == self.name ? HeldLane(lane, self) : lane
    }

    func environment(of other: Environment) -> Environment {
        var environment = Environment(
            time: other.time,
            entropy: other.entropy,
            network: other.network,
            disk: other.disk,
            lanes: self,
            trace: other.trace,
            children: other.children
        )
        environment.security = other.security
        return environment
    }

    func hold() { state.withLock { $0.isHeld = true } }

    func release() {
        state.withLock { state in
            state.isHeld = false
            for (lane, work) in state.waiting { lane.post(work) }
            state.waiting = []
        }
    }

    fileprivate func post(_ work: @escaping @Sendable () -> Void, on lane: any Lane) {
        state.withLock { state in
            if state.isHeld {
                state.waiting.append((lane, work))
            } else {
                lane.post(work)
            }
        }
    }
}

private final class HeldLane: Lane {
    private let base: any Lane
    private let lanes: HeldLanes

    init(_ base: any Lane, _ lanes: HeldLanes) {
        self.base = base
        self.lanes = lanes
    }

    var name: String { base.name }

    func post(_ work: @escaping @Sendable () -> Void) { lanes.post(work, on: base) }

    func post(
        after nanoseconds: UInt64,
        _ work: @escaping @Sendable () -> Void
    ) -> LaneTimer {
        base.post(after: nanoseconds) { [self] in post(work) }
    }

    func stop() { base.stop() }
}
