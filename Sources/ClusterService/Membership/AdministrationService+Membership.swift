internal import Bytes
internal import Consensus
package import Orchestration

/// The result of a request about nodes.
package enum MembershipOutcome: Hashable, Sendable {
    /// Done; with the name of the node, or empty.
    case done(String)
    /// Refused; with a sentence for the user.
    case refused(String)
    case busy(String)
    case failed(String)
}

/// Functions that all requests about nodes share; these requests can be sent to any node.
extension AdministrationService {
    /// How long a node may take to answer a request that it carries out at once.
    static let engageTimeoutNanoseconds: UInt64 = 10_000_000_000

    package func node(named otpNode: String) -> NodeRecord? {
        state.nodes.first { $0.otpNode == otpNode }
    }

    /// Waits until this node has a record of itself, at most ten seconds.
    ///
    /// Only a node that has just left a cluster serves before it has one. For a node that a cluster
    /// has invited this does not wait: its record arrives with the metadata of the cluster.
    package func awaitOwnRecord() async {
        guard lacksRecord else { return }
        _ = await whenChanged(within: Self.engageTimeoutNanoseconds) { _ in !lacksRecord }
    }

    private var lacksRecord: Bool {
        // Under one lock: each member has its own numbers of nodes.
        let (state, member) = core.withLock { ($0.state, $0.member) }
        return !state.isProvisioned && state.node(number: member.node) == nil
            && member.driver.status.configuration.members.count == 1
    }

    func askLeader(
        _ request: LeaderRequest,
        timeoutNanoseconds: UInt64
    ) async -> LeaderAnswer? {
        guard let leader = member.driver.status.leader else { return nil }
        return await member.calls.ask(
            PeerKind.leader,
            request,
            to: leader,
            timeoutNanoseconds: timeoutNanoseconds
        )
    }

    /// Proposes a command; nil if it was applied, or refused for the reason that the caller expects.
    func carryMembership(
        _ command: ClusterCommand,
        by login: String? = nil,
        expecting expected: ClusterRefusal? = nil
    ) async -> MembershipOutcome? {
        do throws(ClusterError) {
            switch try await member.propose(command, by: login) {
            case .applied, .repeated: return nil
            case .refused(let refusal):
                return refusal == expected ? nil : .refused(refusal.sentence)
            }
        } catch {
            return .failed("The cluster did not agree on it: \(error)")
        }
    }
}
