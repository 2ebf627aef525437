internal import Bytes
internal import Orchestration
internal import Vocabulary

/// Why a node is not ready to serve clients.
package enum ReadinessObstacle: Hashable, Sendable {
    case starting
    case stopping
    /// A cluster has invited the node, or the node has just left one, and its metadata is not here yet.
    case joining
    case failedOver
    /// The current state of the cluster is not known here: buckets may be missing or out of date.
    case behind
    /// With the loaded share, from 0 to 1.
    case loading(bucket: String, progress: Double)
    /// A bucket cannot be opened, or a part of it is unreadable; the alerts have the reason.
    case failed(bucket: String)

    /// The bucket; nil if the obstacle is one of the whole node.
    package var bucket: String? {
        switch self {
        case .loading(let bucket, _), .failed(let bucket): bucket
        case .starting, .stopping, .joining, .failedOver, .behind: nil
        }
    }
}

extension HealthService {
    /// The reasons why this node is not ready; empty if it is.
    ///
    /// A node is ready if it waits to be set up, or if it is a member of a cluster, follows the cluster's
    /// state and has loaded its buckets. A member that waits for a rebalance has no buckets. A bucket
    /// that is being created is no obstacle: a balancer would take all nodes out of service.
    package var readinessObstacles: [ReadinessObstacle] {
        // In one read: a bucket of `state` was opened before it left `openings.creating`.
        let (state, creating, member, isServing, hasStarted) = cluster.core.withLock {
            ($0.state, $0.openings.creating, $0.member, $0.isServing, $0.startedNanoseconds > 0)
        }
        guard isServing else { return [hasStarted ? .stopping : .starting] }
        guard let node = state.node(number: member.node), !cluster.isInvited else {
            return [.joining]
        }
        guard state.isProvisioned else { return [] }
        switch node.membership {
        case .joining: return [.joining]
        case .inactiveAdded: return isLedOrAlone ? [] : [.behind]
        case .inactiveFailed, .leftBehind: return [.failedOver]
        case .active: break
        }
        guard isLedOrAlone, cluster.core.withLock({ $0.isFollowing && $0.unfollowed == nil }) else {
            return [.behind]
        }
        return state.buckets.compactMap { bucket in
            let name = bucket.settings.name
            return switch cluster.dataPlane.status(ofBucket: name) {
            case .ready: nil
            case .warmingUp(let progress): .loading(bucket: name, progress: progress)
            case nil where creating.contains(name): nil
            case .failed, nil: .failed(bucket: name)
            }
        }
    }

    /// False if this node has known of no leader for some seconds.
    private var isLedOrAlone: Bool {
        statistics.receivedStatistics.core.withLock { $0.ticksWithoutLeader <= 1 }
    }
}
