internal import Bytes
internal import Indexing
internal import Seams

/// The lanes on which indexes work, as `LaneShares` distributes them.
final class IndexLanes: Sendable {
    private struct State {
        var shares: LaneShares
        var lanes: [Int: any Lane] = [:]
    }

    /// Twice as many as processors, so that one that waits for the disk does not leave a processor idle.
    private static let countMin = 4

    private let factory: any LaneFactory
    private let state: Guarded<State>

    init(_ factory: any LaneFactory) {
        self.factory = factory
        let count = max(IndexLanes.countMin, 2 * factory.reactorCount)
        state = Guarded(State(shares: LaneShares(lanesMax: count)))
    }

    /// The right of an index to work on a lane; to be released once.
    struct Share {
        let lane: any Lane
        fileprivate let number: Int
    }

    func acquire() -> Share {
        state.withLock { state in
            let (number, isNew) = state.shares.acquire()
            guard !isNew, let lane = state.lanes[number] else {
                let lane = factory.makeLane("index-\(number)", isPatient: true)
                state.lanes[number] = lane
                return Share(lane: lane, number: number)
            }
            return Share(lane: lane, number: number)
        }
    }

    /// Ends the lane if no other index works on it; must not be called on the lane.
    func release(_ share: Share) {
        let ended = state.withLock { state in
            state.shares.release(share.number)
                ? state.lanes.removeValue(forKey: share.number) : nil
        }
        ended?.stop()
    }
}
