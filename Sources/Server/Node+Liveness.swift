internal import ClusterService
internal import Seams

/// Reports for a supervisor that the node works, not only that its process exists.
extension Node {
    /// Calls `report` again and again until the node stops, each time after the control lane and then each
    /// reactor has run a job: if one of them stands still, no further report is made.
    package func reportLiveness(
        everyNanoseconds pause: UInt64,
        _ report: @escaping @Sendable () -> Void
    ) {
        let reactors = (0..<environment.lanes.reactorCount).map {
            environment.network.lane(ofReactor: $0)
        }
        administration.cluster.runOnControl(afterNanoseconds: pause) { [weak self] in
            Self.visit(reactors[...]) { [weak self] in
                report()
                self?.reportLiveness(everyNanoseconds: pause, report)
            }
        }
    }

    private static func visit(
        _ lanes: ArraySlice<any Lane>,
        _ done: @escaping @Sendable () -> Void
    ) {
        guard let lane = lanes.first else { return done() }
        lane.post { visit(lanes.dropFirst(), done) }
    }
}
