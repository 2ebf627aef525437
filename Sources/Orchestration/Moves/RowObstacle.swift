package import Vocabulary

/// Why a vBucket cannot be moved yet: first a promotion has to complete, or a copy has to persist.
///
/// Conditions that a running move waits for are `MoveObstacle`s.
package struct RowObstacle: Hashable, Sendable {
    /// The condition, with its nodes.
    package enum Cause: Hashable, Sendable {
        /// Only this failed-over node may have data of the vBucket.
        case abandoned(NodeNumber)
        /// This active node was failed over, and a copy that may be more complete than the others
        /// does not answer.
        case unanswered(NodeNumber)
        /// This node was promoted and is not ready yet.
        case unready(NodeNumber)
        /// The first node has yet to persist what the second one handed over.
        case unwritten(NodeNumber, NodeNumber)
    }

    package let vBucket: VBucketID
    package let cause: Cause

    /// Nil if the vBucket can be moved.
    ///
    /// - Parameters:
    ///   - vBucket: The vBucket's number.
    ///   - placement: Its placement.
    ///   - failedOver: All failed-over nodes.
    ///   - isAbandoned: Whether every other node that may have a copy reported that it has none.
    package init?(
        _ vBucket: VBucketID,
        _ placement: VBucketPlacement,
        failedOver: Set<NodeNumber>,
        isAbandoned: Bool
    ) {
        guard let owner = placement.chain.first else { return nil }
        self.vBucket = vBucket
        let asked = [owner] + placement.confirmedChain.nodes
        if isAbandoned, let gone = asked.first(where: failedOver.contains) {
            cause = .abandoned(gone)
        } else if failedOver.contains(owner) {
            cause = .unanswered(owner)
        } else if placement.isJoint {
            return nil
        } else if !placement.isConfirmed {
            cause = .unready(owner)
        } else if let former = placement.former {
            cause = .unwritten(owner, former)
        } else {
            return nil
        }
    }

    /// Whether only failed-over nodes may have data of the vBucket.
    var isAbandoned: Bool {
        if case .abandoned = cause { true } else { false }
    }

    /// How long a rebalance waits until the obstacle is removed.
    package var timeoutMilliseconds: UInt64 {
        isAbandoned ? Limits.failedOverWaitMilliseconds : Limits.moveStalledMilliseconds
    }

    /// A sentence for the console and the log.
    package func sentence(bucket: String, naming name: (NodeNumber) -> String) -> String {
        let place = "vBucket \(vBucket.number) of the bucket “\(bucket)”"
        switch cause {
        case .abandoned(let node):
            return "\(name(node)) was failed over with \(place), and no other node has data of it."
                + " Recover the node with “delta”, or rebalance without it."
        case .unanswered(let node):
            return "\(name(node)) was failed over with \(place), and another node, whose copy may"
                + " be more complete than the rest, does not answer."
        case .unready(let node):
            return "\(name(node)) was promoted to serve \(place) and is not ready yet."
        case .unwritten(let node, let former):
            return "\(name(node)) has yet to write to disk what \(name(former)) handed over of"
                + " \(place)."
        }
    }
}

/// How long a rebalance has waited for each obstacle of a bucket's vBuckets.
///
/// Each vBucket has its own time, which restarts only if the obstacle's timeout changes. So a
/// vBucket that is promoted again and again is not waited for forever, and obstacles of other
/// vBuckets have no influence.
package struct RowWaits: Hashable, Sendable {
    /// An obstacle's vBucket and timeout, which identify a wait.
    private struct Wait: Hashable {
        let vBucket: VBucketID
        let timeoutMilliseconds: UInt64

        init(_ obstacle: RowObstacle) {
            vBucket = obstacle.vBucket
            timeoutMilliseconds = obstacle.timeoutMilliseconds
        }
    }

    private var since: [Wait: UInt64] = [:]

    package init() {}

    /// Records the present obstacles.
    ///
    /// - Parameters:
    ///   - obstacles: All present obstacles; the others' times are dropped.
    ///   - now: The time.
    /// - Returns: The first obstacle whose timeout has passed; nil if there is none.
    package mutating func take(_ obstacles: [RowObstacle], now: UInt64) -> RowObstacle? {
        let before = since
        since = [:]
        for wait in obstacles.map(Wait.init) { since[wait] = before[wait] ?? now }
        return obstacles.first { obstacle in
            let waited = now - (since[Wait(obstacle)] ?? now)
            return waited >= obstacle.timeoutMilliseconds * 1_000_000
        }
    }
}
