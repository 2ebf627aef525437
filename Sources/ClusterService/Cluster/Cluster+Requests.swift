internal import Bytes
internal import Consensus
package import Orchestration
internal import Seams
internal import Vocabulary

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

    /// - Throws: `unknown` if there is no such bucket.
    func requireBucket(named name: String) throws(AdministrationError) -> BucketRecord {
        guard let bucket = state.bucket(named: name) else { throw .unknown }
        return bucket
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

    /// Proposes a change of the cluster's members, also while this node stops.
    ///
    /// - Parameters:
    ///   - command: The change.
    ///   - login: The administrator or local user that orders it.
    ///   - expected: A refusal after which the caller continues as after success.
    /// - Throws: `refused` or `failed`.
    func carryMembership(
        _ command: ClusterCommand,
        by login: String? = nil,
        expecting expected: ClusterRefusal? = nil
    ) async throws(AdministrationError) {
        let outcome: ClusterOutcome
        do throws(ClusterError) {
            outcome = try await member.propose(command, by: login)
        } catch {
            throw .failed(error)
        }
        if case .refused(let refusal) = outcome, refusal != expected {
            throw .refused(refusal.sentence)
        }
    }

    /// Proposes commands.
    ///
    /// - Parameters:
    ///   - commands: In this order; those after a refused one are left out.
    ///   - login: The administrator or local user that orders them.
    ///   - conflicts: The refusals after which the request must be checked again.
    ///   - text: The event if all are applied.
    /// - Throws: `overtaken`, `invalid` or `failed`.
    func carry(
        _ commands: [ClusterCommand],
        by login: String? = nil,
        overtakenBy conflicts: Set<ClusterRefusal> = [
            .changedMeanwhile, .memoryQuotaExceeded, .nodeTooSmall,
        ],
        logging text: String? = nil
    ) async throws(AdministrationError) {
        for command in commands {
            guard case .refused(let refusal) = try await proposeChange(command, by: login) else {
                continue
            }
            if conflicts.contains(refusal) { throw .overtaken }
            let isSecond = refusal == .alreadyInitialised
            let text = isSecond ? "The cluster is initialized already" : refusal.sentence
            throw .invalid([FieldError("_", text)])
        }
        if let text, !commands.isEmpty { logEvent(.info, .settings, text) }
    }

    /// Proposes a command.
    ///
    /// - Throws: `failed` if the cluster does not agree on it.
    func proposeChange(
        _ command: ClusterCommand,
        by login: String? = nil
    ) async throws(AdministrationError) -> Outcome {
        do throws(ClusterError) {
            return try await propose(command, by: login)
        } catch {
            throw .failed("The cluster's state could not be changed: \(error)")
        }
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

    // MARK: Quorum

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
