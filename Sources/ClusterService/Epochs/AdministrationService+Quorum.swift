internal import Bytes
internal import Orchestration
internal import Vocabulary

/// Whether anything can be decided, and what follows where nothing can.
extension AdministrationService {
    /// A majority answers, an election being under way perhaps.
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

    /// Why nothing can be decided, and what deciding it all the same may cost.
    func noQuorumSentence(without nodes: [NodeNumber]) async -> String {
        let (voters, answering, needed) = await onControl { self.member.driver.quorum }
        guard answering < needed else {
            return "Cannot fail over: \(answering) of the cluster's \(voters) voting nodes answer "
                + "this one, but they did not agree on anything in time. Ask again."
        }
        let stake = EpochStake(state, without: nodes)
        let parts = [
            "Cannot fail over: there is no quorum. Only \(answering) of the cluster's \(voters) "
                + "voting nodes \(answering == 1 ? "answers" : "answer") this one, itself "
                + "included, and \(needed) are needed to decide anything.",
            "If the others are gone for good, the same request with allowUnsafe=true, naming all "
                + "that are gone, begins a new epoch of the cluster with those that are left. Stop "
                + "the others first: where they still serve, there are two clusters.",
            "What that may lose: what only the others know of decisions and documents.",
        ]
        return (parts + stake.sentences).joined(separator: " ")
    }
}
