internal import Bytes
internal import Consensus
package import Orchestration
internal import Seams
internal import Vocabulary

/// What came of a request about nodes.
package enum MembershipOutcome: Hashable, Sendable {
    /// With the name of the node that it was about, where there is one.
    case done(String)
    /// In words for whoever asked.
    case refused(String)
    case busy(String)
    case failed(String)
}

/// Who belongs to the cluster, asked of any of its nodes: what all such requests share.
extension AdministrationService {
    /// How long a node may take to answer what it takes up at once.
    static let engagePatience: UInt64 = 10_000_000_000

    package func node(named otpNode: String) -> NodeRecord? {
        state.nodes.first { $0.otpNode == otpNode }
    }

    func askLeader(
        _ request: LeaderRequest,
        timeoutNanoseconds: UInt64
    ) async -> LeaderAnswer? {
        guard let leader = member.driver.status.leader else { return nil }
        let result = await member.calls.call(
            PeerKind.leader,
            request.bytes,
            to: leader,
            timeoutNanoseconds: timeoutNanoseconds
        )
        guard case .success(let bytes) = result else { return nil }
        return LeaderAnswer(bytes: bytes)
    }

    /// Nil where it was done.
    func carryMembership(_ command: ClusterCommand) async -> MembershipOutcome? {
        do throws(ClusterError) {
            switch try await member.propose(command) {
            case .applied, .repeated: return nil
            case .refused(let refusal): return .refused(refusal.sentence)
            }
        } catch {
            return .failed("The cluster did not agree on it: \(error)")
        }
    }
}
