internal import Bytes
package import Orchestration
internal import Seams

/// Rebalance: start, progress, stop.
extension MembershipService {
    /// Starts a rebalance of all vBuckets over `known` without `ejected`.
    ///
    /// - Parameters:
    ///   - known: All nodes of the cluster, by name.
    ///   - ejected: The nodes to remove.
    ///   - deltaBuckets: Buckets that must be recovered from the data that returning nodes still
    ///     have; the rebalance does so for every existing bucket.
    ///   - login: The administrator or local user that orders it.
    /// - Returns: The id of the rebalance.
    /// - Throws: `unplannable`, `busy` or `failed`.
    package func rebalance(
        known: [String],
        ejected: [String],
        deltaBuckets: [String] = [],
        by login: String
    ) async throws(AdministrationError) -> String {
        guard !known.isEmpty else { throw .unplannable(.noNodes) }
        let members = cluster.state.nodes.filter { $0.membership != .joining }
        guard Set(known) == Set(members.map(\.otpNode)), known.count == members.count,
            Set(ejected).isSubset(of: known)
        else { throw .unplannable(.mismatch) }
        if let running = cluster.state.rebalance {
            guard running.kind == .rebalance else {
                throw .busy(
                    "Cannot rebalance during a graceful failover. Wait for its end, or stop it."
                )
            }
            return running.id
        }
        let leaving = members.filter {
            ejected.contains($0.otpNode) || $0.membership == .inactiveFailed
        }
        let kept = members.filter { node in !leaving.contains { $0.number == node.number } }
        guard !kept.isEmpty else { throw .unplannable(.noNodesLeft) }
        guard deltaBuckets.allSatisfy({ cluster.state.bucket(named: $0) != nil }) else {
            throw .unplannable(.deltaImpossible)
        }
        await untilEmptied(kept)
        return try await start(.rebalance, kept: kept, ejected: leaving, by: login)
    }

    /// Waits until nodes in full recovery have deleted their data.
    ///
    /// A node that is behind follows the current state in one step, and would otherwise build
    /// copies on data from before the failover.
    private func untilEmptied(_ kept: [NodeRecord]) async {
        let returning = kept.filter {
            $0.membership == .inactiveAdded && $0.recovery == .full && $0.number != cluster.thisNode
        }
        let (index, deadline) = (cluster.state.index, cluster.monotonicNanoseconds)
        while returning.contains(where: { cluster.member.beats.actsAsOf($0.number) < index }),
            cluster.monotonicNanoseconds < deadline
                + Self.emptyTimeoutNanoseconds
        {
            await cluster.member.sleep(milliseconds: 50)
        }
    }

    /// A node whose beats have not reported the current index after this time is down, or new.
    private static let emptyTimeoutNanoseconds: UInt64 = 1_000_000_000

    /// Starts an operation; returns its id.
    func start(
        _ kind: RebalanceRecord.Kind,
        kept: [NodeRecord],
        ejected: [NodeRecord],
        by login: String
    ) async throws(AdministrationError) -> String {
        var record = RebalanceRecord(
            id: cluster.environment.entropy.hex(16),
            kind: kind,
            kept: kept.map(\.number),
            ejected: ejected.map(\.number),
            startedMilliseconds: cluster.wallMilliseconds
        )
        record.login = login
        let outcome: ClusterOutcome
        do throws(ClusterError) {
            outcome = try await cluster.member.propose(.startRebalance(record), by: login)
        } catch {
            throw .failed(error)
        }
        switch outcome {
        case .applied, .repeated: return record.id
        case .refused(.rebalanceRunning):
            // A caller that asked for another kind would wait for the wrong operation.
            let running = cluster.state.rebalance
            guard kind == running?.kind ?? .rebalance else {
                throw .busy("Cannot do this during rebalance: another operation has just begun.")
            }
            return running?.id ?? record.id
        case .refused(.nodesMismatch): throw .unplannable(.mismatch)
        case .refused(.onlyCopies): throw .unplannable(.wouldLose)
        case .refused(let refusal): throw .failed(refusal.sentence)
        }
    }

    /// Stops the running operation, and returns once it is over; completed moves stay.
    ///
    /// The request is kept only by the leader, so it is repeated for the next leader.
    ///
    /// - Throws: `failed` if it is not over in time.
    package func stopRebalance() async throws(AdministrationError) {
        guard let id = cluster.state.rebalance?.id else { return }
        let deadline = cluster.monotonicNanoseconds + Self.stopTimeoutNanoseconds
        var isTaken = false
        while cluster.isServing, cluster.monotonicNanoseconds < deadline {
            if case .done = await cluster.askLeader(
                .stopRebalance(id),
                timeoutNanoseconds: 5_000_000_000
            ) {
                isTaken = true
            }
            let isOver = await cluster.whenChanged(within: 1_000_000_000) { $0.rebalance?.id != id }
            if isOver { return }
        }
        throw .failed(
            isTaken
                ? "The rebalance is stopping, but has not ended yet."
                : "The node that leads the rebalance does not answer. Retry. Retry."
        )
    }

    /// How long moves under way may take to end.
    private static let stopTimeoutNanoseconds: UInt64 = 20_000_000_000

    /// Cancels the scheduled retry; false if there is none with this id.
    package func cancelRetry(_ id: String) async -> Bool {
        do throws(AdministrationError) {
            try await cluster.carryMembership(.dropRetry(id: id))
        } catch {
            return false
        }
        cluster.logEvent(.info, .rebalance, "The failed rebalance will not be retried.")
        return true
    }

    /// The progress of the running operation: from its leader, or, without a leader, as last seen
    /// here.
    package func report(of rebalance: RebalanceRecord) async -> RebalanceReport {
        var told: RebalanceReport?
        let answer = await cluster.askLeader(.rebalanceReport, timeoutNanoseconds: 1_000_000_000)
        // A report without nodes means that the rebalance has ended at the leader.
        if case .report(let report) = answer, !report.nodes.isEmpty { told = report }
        return core.withLock { core in
            let shown = core.shown.flatMap { $0.rebalance == rebalance.id ? $0.report : nil }
            let report = RebalanceReport(told, after: shown, of: rebalance)
            core.shown = (rebalance.id, report)
            return report
        }
    }
}
