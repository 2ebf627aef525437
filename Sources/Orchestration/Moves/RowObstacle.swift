package import Vocabulary

/// What has to be over before a vBucket can be moved at all: somebody else has to serve it, or to write
/// it down, first.
///
/// What a move itself waits for is a `MoveObstacle`.
package struct RowObstacle: Hashable, Sendable {
    package enum Cause: Hashable, Sendable {
        /// Nobody else has anything of what a failed-over node has.
        case abandoned(NodeNumber)
        /// The active one was failed over, and somebody who may have more than others is silent.
        case unanswered(NodeNumber)
        /// It was chosen, and is not ready.
        case unready(NodeNumber)
        /// The first has yet to write what the second handed over.
        case unwritten(NodeNumber, NodeNumber)
    }

    package let vBucket: VBucketID
    package let cause: Cause

    /// Nil where nothing is in the way.
    ///
    /// - Parameters:
    ///   - vBucket: Its number.
    ///   - placement: What was agreed on about it.
    ///   - failedOver: Nodes that were.
    ///   - isAbandoned: All others who may have something of it said that they have nothing.
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

    /// How long a rebalance waits for its end.
    package var patienceMilliseconds: UInt64 {
        if case .abandoned = cause { return Limits.failedOverWaitMilliseconds }
        return Limits.moveStalledMilliseconds
    }

    package func sentence(bucket: String, naming name: (NodeNumber) -> String) -> String {
        let place = "vBucket \(vBucket.number) of the bucket “\(bucket)”"
        switch cause {
        case .abandoned(let node):
            return "\(name(node)) was failed over with \(place), and nobody else has anything of"
                + " it. Recover it with “delta”, or rebalance without it."
        case .unanswered(let node):
            return "\(name(node)) was failed over with \(place), and somebody else who may have"
                + " more of it than others does not answer."
        case .unready(let node):
            return "\(name(node)) was chosen to serve \(place) and is not ready yet."
        case .unwritten(let node, let former):
            return "\(name(node)) has yet to write to disk what \(name(former)) handed over of"
                + " \(place)."
        }
    }
}

/// Since when a rebalance has waited for what is in the way of a bucket's vBuckets.
///
/// Each vBucket has its own time, which begins anew only where it is waited for with another patience:
/// one that is chosen again and again is not waited for without end, and what comes and goes at others
/// changes nothing.
package struct RowWaits: Hashable, Sendable {
    private struct Wait: Hashable {
        let vBucket: VBucketID
        let patienceMilliseconds: UInt64

        init(_ obstacle: RowObstacle) {
            vBucket = obstacle.vBucket
            patienceMilliseconds = obstacle.patienceMilliseconds
        }
    }

    private var since: [Wait: UInt64] = [:]

    package init() {}

    /// - Parameters:
    ///   - obstacles: All that are in the way now; what is not among them is over.
    ///   - now: The time.
    /// - Returns: The first of them that was waited for long enough.
    package mutating func take(_ obstacles: [RowObstacle], now: UInt64) -> RowObstacle? {
        let before = since
        since = [:]
        for wait in obstacles.map(Wait.init) { since[wait] = before[wait] ?? now }
        return obstacles.first { obstacle in
            let waited = now - (since[Wait(obstacle)] ?? now)
            return waited >= obstacle.patienceMilliseconds * 1_000_000
        }
    }
}
