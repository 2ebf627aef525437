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

/// The result of a request about the cluster.
package enum ClusterFormOutcome: Sendable {
    case done
    case refused([FieldError])
    /// The settings were changed meanwhile: the request must be checked again.
    case overtaken
    /// A sentence for the user.
    case failed(String)
}

/// An order of one node to another one, and where it goes.
struct NodeOrder: Sendable {
    let node: NodeNumber
    let kind: UInt16
    let bytes: [UInt8]

    /// The answer of a node that has carried an order out.
    ///
    /// A node that has not answers nothing.
    static let carriedOut: [UInt8] = [1]
}

/// Functions that all requests about nodes share; these requests can be sent to any node.
extension Cluster {
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

    static var stopping: ClusterFormOutcome { .failed("The node is stopping.") }

    /// Proposes commands.
    ///
    /// - Parameters:
    ///   - commands: In this order; those after a refused one are left out.
    ///   - login: The administrator or local user that orders them.
    ///   - conflicts: The refusals after which the request must be checked again.
    ///   - text: The event if all are applied.
    /// - Returns: The result.
    func carry(
        _ commands: [ClusterCommand],
        by login: String? = nil,
        overtakenBy conflicts: Set<ClusterRefusal> = [
            .changedMeanwhile, .memoryQuotaExceeded, .nodeTooSmall,
        ],
        logging text: String? = nil
    ) async -> ClusterFormOutcome {
        for command in commands {
            do {
                switch try await propose(command, by: login) {
                case .refused(let refusal) where conflicts.contains(refusal): return .overtaken
                case .refused(.alreadyInitialised):
                    return .refused([FieldError("_", "The cluster is initialized already")])
                case .refused(let refusal): return .refused([FieldError("_", refusal.sentence)])
                case .done, .failed: break
                }
            } catch {
                return .failed("The cluster's state could not be changed: \(error)")
            }
        }
        if let text, !commands.isEmpty { logEvent(.info, .settings, text) }
        return .done
    }

    /// A node answers in milliseconds unless it is down, or its network is slow: a request waits no
    /// longer for it.
    private static var orderTimeoutNanoseconds: UInt64 { 2_000_000_000 }

    /// Sends orders to other nodes, all at once, and waits at most two seconds.
    ///
    /// - Returns: For each order, whether the node has carried it out. A node that did not answer in
    ///   time may carry it out later.
    func send(_ orders: [NodeOrder]) async -> [Bool] {
        await withTaskGroup(of: (Int, Bool).self) { group in
            for (place, order) in orders.enumerated() {
                group.addTask { [calls] in  // tidy:allow a child of the request's task
                    let result = await calls.call(
                        order.kind,
                        order.bytes,
                        to: order.node,
                        timeoutNanoseconds: Self.orderTimeoutNanoseconds
                    )
                    return (place, result == .success(NodeOrder.carriedOut))
                }
            }
            var outcomes = [Bool](repeating: false, count: orders.count)
            for await (place, isCarriedOut) in group { outcomes[place] = isCarriedOut }
            return outcomes
        }
    }
}
