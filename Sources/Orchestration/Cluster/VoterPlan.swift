package import Vocabulary

/// Which nodes should be voters: up to seven active nodes, spread over the server groups.
///
/// - Present voters that are active stay voters: every change of voters delays the log briefly.
/// - A node that is failed over or not yet active is a learner: a dead voter could cost the other
///   nodes their leases.
package struct VoterPlan: Hashable, Sendable {
    /// With more than seven, each voter costs more latency than it adds availability.
    package static let votersMax = 7

    /// A node of the cluster, as input of the plan.
    package struct Member: Hashable, Sendable {
        package var node: NodeNumber
        package var group: String
        package var isActive: Bool

        package init(_ node: NodeNumber, group: String = "", isActive: Bool) {
            self.node = node
            self.group = group
            self.isActive = isActive
        }
    }

    /// Sorted by number.
    package let voters: [NodeNumber]
    /// All other nodes, sorted by number.
    package let learners: [NodeNumber]

    /// - Parameters:
    ///   - members: All nodes of the cluster.
    ///   - present: The present voters.
    package init(_ members: [Member], present: [NodeNumber]) {
        let able = members.filter(\.isActive).sorted { $0.node < $1.node }
        var chosen = able.filter { present.contains($0.node) }
        if chosen.count > Self.votersMax { chosen.removeLast(chosen.count - Self.votersMax) }
        while chosen.count < Self.votersMax {
            let rest = able.filter { one in !chosen.contains { $0.node == one.node } }
            let crowd = { (one: Member) in chosen.count { $0.group == one.group } }
            let next = rest.min { (crowd($0), $0.node) < (crowd($1), $1.node) }
            guard let next else { break }
            chosen.append(next)
        }
        let voters = chosen.map(\.node).sorted()
        self.voters = voters
        learners = members.map(\.node).filter { !voters.contains($0) }.sorted()
    }
}
