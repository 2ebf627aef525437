internal import Orchestration
internal import Vocabulary

/// Whether a majority can decide, and what to do if it cannot.
extension Cluster {
    /// Whether a majority answers within three seconds, time for an election included.
    var hasQuorum: Bool {
        get async {
            do throws(ClusterError) {
                _ = try await readCurrent(timeout: 3_000_000_000)
                return true
            } catch {
                return false
            }
        }
    }

    /// Why nothing can be decided, and what a failover without a quorum may cost.
    func noQuorumSentence(without nodes: [NodeNumber]) async -> String {
        let (voters, answering, needed) = await onControl { self.member.driver.quorum }
        guard answering < needed else {
            return "Cannot fail over: \(answering) of the cluster's \(voters) voting nodes answer "
                + "this one, but they did not agree in time. Retry."
        }
        let impact = UnsafeFailoverImpact(state, without: nodes)
        let parts = [
            "Cannot fail over: there is no quorum. Only \(answering) of the cluster's \(voters) "
                + "voting nodes \(answering == 1 ? "answers" : "answer") this one, itself "
                + "included, and \(needed) are needed to decide anything.",
            "If the other nodes are gone for good, repeat the request with allowUnsafe=true and "
                + "the names of all nodes that are gone: it begins a new epoch of the cluster with "
                + "the remaining nodes. Stop the other nodes first: if they still serve, there are "
                + "two clusters.",
            "This can lose decisions and documents that only the other nodes have.",
        ]
        return (parts + impact.sentences).joined(separator: " ")
    }
}
