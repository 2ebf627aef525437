internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// A new epoch that is being formed; until its deadline this node does nothing else.
struct FormingEpoch: Sendable {
    /// The random id of the future group.
    var id: UInt64
    var untilNanoseconds: UInt64
}

/// Forms a cluster of the remaining nodes when a majority is gone for good; on the node that the
/// operator asks.
///
/// 1. All members that are not given up report the ends of their logs, and stop their logs.
/// 2. Every entry of the best log counts as committed; the new epoch is its next entry.
/// 3. The new epoch is stored here, then sent to each member; from then on other groups are
///    refused.
///
/// - Before step 3 nothing has changed, and the nodes continue as before. After it, every node of
///   the new epoch sends the epoch to each member of the old one that connects. So the change
///   completes even without a repeated request.
package final class EpochService: Sendable {
    /// The changes to other epochs that are under way.
    struct Core {
        /// The new epoch that this or another node is forming; nil if there is none.
        var forming: FormingEpoch?
        /// Nodes to which this node is sending its epoch for adoption.
        var bringing: Set<NodeNumber> = []
    }

    let cluster: Cluster
    let engagement: EngagementService
    let applier: MapApplier
    let core = Guarded(Core())

    init(_ engagement: EngagementService) {
        cluster = engagement.cluster
        applier = engagement.applier
        self.engagement = engagement
    }

    /// How long a member may take to report the end of its log; it may be starting.
    private static let surveyTimeoutNanoseconds: UInt64 = 3_000_000_000
    /// How long the new epoch may take to replace the active copies of nodes left behind.
    private static let settlingTimeoutNanoseconds: UInt64 = 30_000_000_000

    /// Fails nodes over without a quorum.
    ///
    /// - Parameters:
    ///   - names: Nodes that are gone for good. All other members must answer.
    ///   - login: The administrator or local user that orders it.
    /// - Returns: What is or may be lost.
    /// - Throws: `refused`, `busy` or `failed`.
    func formEpoch(
        without names: [String],
        by login: String
    ) async throws(AdministrationError) -> String {
        var gone: [NodeNumber] = []
        for name in names {
            guard let node = cluster.node(named: name) else {
                throw .refused("Unknown server given.")
            }
            gone.append(node.number)
        }
        guard !gone.contains(cluster.thisNode) else {
            throw .refused(
                "This node cannot fail itself over. Send the request to a node that stays."
            )
        }
        // The epoch began at an earlier request; only wait for it.
        if gone.allSatisfy(cluster.state.leftBehind.contains) { return try await epochSettled() }
        let id = cluster.environment.entropy.next() | 1
        guard await cluster.onControl({ self.beginForming(id) }) else {
            throw .busy("A new epoch is being formed. Retry in a moment.")
        }
        let result = await Result(of: try await form(id, without: gone, by: login))
        core.withLock { core in
            if core.forming?.id == id { core.forming = nil }
        }
        if case .failure = result { await cluster.onControl { self.cluster.member.deafUntil = 0 } }
        try result.get()
        return try await epochSettled()
    }

    /// Forms the epoch; returns once it is on this node's disk.
    private func form(
        _ id: UInt64,
        without gone: [NodeNumber],
        by login: String
    ) async throws(AdministrationError) {
        let survey = try await surveyed(id, without: gone)
        var state = survey.state
        let index = survey.best.lastIndex + 1
        let term = survey.positions.values.map(\.term).reduce(survey.best.lastTerm, max) + 1
        let survivors = survey.positions.keys.sorted()
        let impact = UnsafeFailoverImpact(
            state,
            without: state.nodes.map(\.number).filter { !survivors.contains($0) }
        )
        var command = NewEpoch(
            groupID: id,
            formerGroupID: survey.best.group,
            survivors: survivors,
            beganMilliseconds: cluster.wallMilliseconds
        )
        command.login = login
        switch state.apply(.newEpoch(command), at: index) {
        case .applied, .repeated: break
        case .refused(.lastActiveNode):
            throw .refused("Last active node cannot be failed over.")
        case .refused(let refusal):
            throw .refused("A new epoch cannot begin. \(refusal.sentence)")
        }
        let plan = VoterPlan(
            state.members.map {
                VoterPlan.Member($0.number, group: $0.group, isActive: $0.membership == .active)
            },
            present: survivors
        )
        let names = state.leftBehind.map { number in
            state.node(number: number).map { "\($0.host):\($0.ports.admin)" } ?? "\(number)"
        }
        cluster.logEvent(
            .warning,
            .node,
            "By the order of \(ChangeTrail.name(login)) a new epoch (\(state.revEpoch)) begins without "
                + "\(names.joined(separator: ", ")). \(impact.sentences.joined(separator: " "))"
        )
        let handover = EpochHandover(
            epoch: state.revEpoch,
            group: id,
            past: state.pastGroups,
            term: term,
            index: index,
            voters: plan.voters,
            learners: plan.learners,
            state: state.encoded()
        )
        if let reason = await adopt(handover) { throw .failed(reason) }
        for node in survivors where node != cluster.thisNode {
            cluster.executor.spawn { await self.bringOver(node) }
        }
    }

    /// Waits until no vBucket depends on nodes left behind, and reports the result.
    private func epochSettled() async throws(AdministrationError) -> String {
        let isSettled = await cluster.whenChanged(within: Self.settlingTimeoutNanoseconds) {
            $0.leftBehind.isEmpty
        }
        guard isSettled else {
            throw .failed(
                "A new epoch began on this node, but its nodes have not completed the change. "
                    + "Check that they run, and repeat the request."
            )
        }
        guard
            case .done(let sentence) = await cluster.askLeader(
                .epochReport,
                timeoutNanoseconds: 2_000_000_000
            ), !sentence.isEmpty
        else { return "A new epoch began; the log of its first leader says what was lost." }
        return sentence
    }

    // MARK: Surveying the members

    private struct EpochSurvey {
        var positions: [NodeNumber: EpochPosition] = [:]
        var best: EpochPosition
        /// The state including all entries of the best log.
        var state: ClusterState
    }

    /// Surveys all members that are not given up, until the best log names no further member.
    private func surveyed(
        _ id: UInt64,
        without gone: [NodeNumber]
    ) async throws(AdministrationError) -> EpochSurvey {
        let own = cluster.thisNode
        let whole: Result<(EpochPosition, ClusterState), ClusterError> = await cluster.onControl {
            let member = self.cluster.member
            do throws(ClusterError) {
                return .success((member.epochPosition, try member.wholeState()))
            } catch {
                return .failure(error)
            }
        }
        guard case .success(let (position, state)) = whole else {
            throw .failed("This node's log cannot be read.")
        }
        var survey = EpochSurvey(positions: [own: position], best: position, state: state)
        while true {
            let asked = survey.state.members.filter { node in
                !gone.contains(node.number) && survey.positions[node.number] == nil
                    && node.membership != .joining
            }
            guard !asked.isEmpty else { return survey }
            let answers = await ask(.survey(forming: id), of: asked.map(\.number))
            var silent: [NodeRecord] = []
            for node in asked {
                switch answers[node.number] {
                case .position(let position):
                    if let reason = reason(against: position, of: node) {
                        throw .refused(reason)
                    }
                    survey.positions[node.number] = position
                case .refused(let reason):
                    let name = "\(node.host):\(node.ports.admin)"
                    throw .busy("\(name) refused: \(reason)")
                default: if node.membership == .active { silent.append(node) }
                }
            }
            guard silent.isEmpty else { throw .refused(Self.sentence(silent)) }
            let best = survey.positions.max { EpochPosition.isBehind($0.value, $1.value) }
            guard let best, EpochPosition.isBehind(survey.best, best.value) else {
                return survey
            }
            guard case .state(let bytes) = await ask(.state(forming: id), of: [best.key])[best.key],
                case .state(let state) = ClusterState.decode(bytes),
                state.uuid == self.cluster.state.uuid
            else {
                throw .failed("The node with the newest log did not send it. Retry.")
            }
            survey.best = best.value
            survey.state = state
        }
    }

    private static func sentence(_ silent: [NodeRecord]) -> String {
        let names = silent.map { "\($0.host):\($0.ports.admin)" }.joined(separator: ", ")
        return "\(names) \(silent.count == 1 ? "does" : "do") not answer and "
            + "\(silent.count == 1 ? "was" : "were") not named: a new epoch would begin without "
            + "\(silent.count == 1 ? "it" : "them"). Name every node that is gone for good, or "
            + "start the other nodes first."
    }

    private func reason(against position: EpochPosition, of node: NodeRecord) -> String? {
        let (own, past) = (cluster.member.identity, cluster.state.pastGroups)
        let name = "\(node.host):\(node.ports.admin)"
        if position.epoch > own.epoch {
            return "\(name) is in a newer epoch of the cluster already. Send the request there; if "
                + "this node is in that epoch, it is brought in as soon as the two connect."
        }
        guard position.group == own.groupID || past.contains(position.group) else {
            return "\(name) is in another epoch that began beside this one: they are two clusters "
                + "now. Name it too, and add it again after a reset."
        }
        return nil
    }

    private func ask(
        _ call: EpochCall,
        of nodes: [NodeNumber]
    ) async -> [NodeNumber: EpochAnswer] {
        await withTaskGroup(of: (NodeNumber, EpochAnswer?).self) { group in
            for node in nodes {
                group.addTask { (node, await self.ask(call, of: node)) }  // tidy:allow a child
            }
            var answers: [NodeNumber: EpochAnswer] = [:]
            for await (node, answer) in group { answers[node] = answer }
            return answers
        }
    }

    private func ask(_ call: EpochCall, of node: NodeNumber) async -> EpochAnswer? {
        let result = await withUnsafeContinuation { waiter in
            cluster.lane.post {
                self.cluster.calls.callAcrossEpochs(
                    node,
                    PeerKind.epoch,
                    call.encoded,
                    timeoutNanoseconds: Self.surveyTimeoutNanoseconds
                ) { waiter.resume(returning: $0) }
            }
        }
        guard case .success(let bytes) = result else { return nil }
        return EpochAnswer(message: bytes)
    }

    // MARK: Bringing members in

    /// A node refused this one, or was refused: it may be in a previous epoch.
    func mayBeBehind(_ node: NodeNumber) {
        guard !cluster.state.pastGroups.isEmpty,
            cluster.state.members.contains(where: { $0.number == node }),
            core.withLock({ $0.bringing.insert(node).inserted })
        else { return }
        cluster.executor.spawn {
            await self.bringOver(node)
            self.core.withLock { _ = $0.bringing.remove(node) }
        }
    }

    /// Sends this epoch to a member of a previous epoch; ignores members of other epochs.
    private func bringOver(_ node: NodeNumber) async {
        guard case .position(let position) = await ask(.position, of: node),
            position.epoch < cluster.state.revEpoch,
            cluster.state.pastGroups.contains(position.group),
            let handover = await cluster.onControl({ self.cluster.member.handover })
        else { return }
        if case .refused(let reason) = await ask(.adopt(handover), of: node) {
            cluster.logEvent(
                .warning,
                .node,
                "Node \(node) refused to change to the new epoch: \(reason). Its next connection "
                    + "retries it."
            )
        }
    }
}
