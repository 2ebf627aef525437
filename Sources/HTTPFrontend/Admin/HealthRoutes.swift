internal import ClusterService
internal import Orchestration

/// Health for service managers and load balancers, without a login and for every name in `Host`.
///
/// A request without a login learns the number of buckets that are not ready, and not their names.
extension AdminRoutes {
    static let health: [Route] = [
        // The process answers.
        Route(.get, "/healthz", access: .open) { _ in .text("ok\r\n", status: 200) }.servedAlways(),
        Route(.get, "/readyz", access: .open) { call in
            let obstacles = call.service.health.readinessObstacles
            guard !obstacles.isEmpty else { return .text("ready\r\n", status: 200) }
            return .text(sentences(obstacles, call).map { "\($0)\r\n" }.joined(), status: 503)
        }.servedAlways(),
    ]

    /// A sentence for each obstacle; buckets that the identity may not see are counted in one.
    private static func sentences(_ obstacles: [ReadinessObstacle], _ call: Call) -> [String] {
        let rights = call.rights
        let hidden = obstacles.count { $0.bucket.map { !rights.sees(bucket: $0) } ?? false }
        var sentences = obstacles.compactMap { obstacle -> String? in
            if let bucket = obstacle.bucket, !rights.sees(bucket: bucket) { return nil }
            return sentence(obstacle)
        }
        if hidden > 0 {
            sentences.append("\(Words.count(hidden, "bucket")) not loaded; a login has the names.")
        }
        return sentences
    }

    private static func sentence(_ obstacle: ReadinessObstacle) -> String {
        switch obstacle {
        case .starting: "The node is starting."
        case .stopping: "The node is stopping."
        case .joining: "The node is joining or leaving a cluster."
        case .failedOver: "The node was failed over. Add it back and rebalance."
        case .behind:
            "The node does not have the current state of its cluster. Check that a majority of the "
                + "nodes runs and can be reached."
        case .loading(let bucket, let progress):
            "Bucket \(bucket) is loading: \(Int(100 * progress)) %."
        case .failed(let bucket):
            "Bucket \(bucket) does not serve; the alerts have the reason."
        }
    }
}
