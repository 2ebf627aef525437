internal import Bytes
internal import Consensus
package import Orchestration
internal import Seams
internal import Vocabulary

/// The result of a request about nodes.
package enum MembershipOutcome: Hashable, Sendable {
    /// Done; with the name of the node, or empty.
    case done(String)
    /// Refused; with a sentence for the user.
    case refused(String)
    case busy(String)
    case failed(String)
}

/// What all requests about nodes share; they can be sent to any node.
extension AdministrationService {
    /// How long a node may take to answer a request that it carries out at once.
    static let engageTimeoutNanoseconds: UInt64 = 10_000_000_000

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

    /// Proposes a command; nil if it was applied.
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
