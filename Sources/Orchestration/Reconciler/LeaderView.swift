package import Vocabulary

/// The leader's knowledge at one instant: the input of each step of the `Reconciler`.
///
/// Times are monotonic nanoseconds unless a name says otherwise.
package struct LeaderView: Sendable {
    /// The cluster's log and its voters, as this leader sees them.
    package struct Log: Sendable {
        package var voters: [NodeNumber] = []
        package var learners: [NodeNumber] = []
        /// Whether a change of the voters is under way.
        package var isJoint = false
        package var commit: UInt64 = 0
        package var last: UInt64 = 0
        /// By member: the last log index that it is known to have on disk.
        package var matched: [NodeNumber: UInt64] = [:]
        /// Members that may receive the leadership: heard within an election timeout.
        package var heard: Set<NodeNumber> = []
        /// Members that answer at once, so that a majority may depend on them.
        package var responsive: Set<NodeNumber> = []
        /// The member with the fewest entries on disk while entries are uncommitted; nil if there is none.
        package var laggard: (node: NodeNumber, entries: UInt64)?

        package init() {}

        package var members: [NodeNumber] { voters + learners }

        /// How many entries a member has not acknowledged.
        func missing(on node: NodeNumber) -> UInt64 {
            guard let matched = matched[node] else { return 0 }
            return last > matched ? last - matched : 0
        }
    }

    /// The last beats of the other nodes.
    package struct Beats: Sendable {
        package var table: FailureTable
        /// By node: the log index by which its copies act.
        package var actsAsOf: [NodeNumber: UInt64] = [:]
        /// Nodes whose last beat reported that a bucket does not serve.
        package var unready: Set<NodeNumber> = []
        /// By node, by bucket UUID: the seqnos of what the node serves.
        package var served: [NodeNumber: [String: ActiveSeqnoDigest]] = [:]

        package init(_ table: FailureTable) { self.table = table }
    }

    package let node: NodeNumber
    package var now: UInt64
    package var wallMilliseconds: UInt64 = 0
    /// Since when this node leads.
    package var leadsSince: UInt64 = 0
    package var state: ClusterState
    package var log = Log()
    package var beats: Beats
    /// The secret that replaces the present one; nil if none is due.
    package var renewedSecret: SharedSecret?

    package init(of node: NodeNumber, _ state: ClusterState, _ beats: Beats, now: UInt64) {
        self.node = node
        self.state = state
        self.beats = beats
        self.now = now
    }
}

extension LeaderView {
    /// Nodes that are not active members: their copies are not used.
    var failedOver: Set<NodeNumber> {
        Set(state.nodes.filter { $0.membership != .active }.map(\.number))
    }

    /// Nodes from which no node has received a beat for a while.
    var deadNodes: [NodeNumber] {
        state.nodes.map(\.number).filter { beats.table.isSuspect($0, now: now) }
    }

    /// Nodes that answer and have a bucket that does not serve.
    var unreadyNodes: [NodeNumber] {
        state.nodes.map(\.number).filter {
            beats.unready.contains($0) && !beats.table.isSuspect($0, now: now)
        }
    }

    /// Failed-over nodes that the running rebalance or a new epoch removes: the operator has given
    /// up their data.
    var leavingForGood: [NodeNumber] {
        let leftBehind = state.leftBehind
        guard let rebalance = state.rebalance, rebalance.kind == .rebalance else {
            return leftBehind
        }
        let failedOver = failedOver
        return leftBehind + rebalance.ejected.filter { failedOver.contains($0) }
    }

    /// The host and admin port of a node, for sentences.
    package func name(_ node: NodeNumber) -> String {
        state.node(number: node).map { "\($0.host):\($0.ports.admin)" } ?? "node \(node.value)"
    }

    func names(_ nodes: [NodeNumber]) -> String { nodes.map { name($0) }.joined(separator: ", ") }

    func sentences(_ reasons: [FailoverBlocker]) -> [String] {
        reasons.map { $0.sentence(now: now, naming: { self.name($0) }) }
    }

    /// The node that delays agreement, in a sentence that names no vBucket; nil if none does.
    package var logObstacle: String? {
        log.laggard.map { node, entries in
            "\(name(node)) has yet to write \(entries == 1 ? "1 step" : "\(entries) steps") of the "
                + "cluster's log to disk."
        }
    }

    /// The obstacle of a step that waits for agreement: the node furthest behind in the log.
    func agreement(on vBucket: VBucketID, at step: MoveStep) -> MoveObstacle {
        MoveObstacle(
            vBucket: vBucket,
            step: step,
            node: log.laggard?.node ?? node,
            cause: log.laggard.map { .notInLog(entries: $0.entries) } ?? .notAgreed
        )
    }
}
