internal import Orchestration
internal import Seams
internal import Vocabulary

/// The leader's work: makes the cluster match the agreed state.
///
/// The orchestrator keeps nothing that a new leader would need: what was begun is in the agreed
/// state, and each round begins from there. Policies are in `Orchestration`; this type carries them
/// out.
///
/// - Everything runs on the control lane, also after every suspension.
/// - It acts only while this node leads and has applied everything committed before its term. A
///   proposed step may be applied long after that: so each step names its precondition (a fence, a
///   stage, a rebalance's id, that nothing is lost), and has no effect if the precondition is gone.
actor Orchestrator {
    /// The pause between rounds without a cause; changes start a round at once.
    private static let intervalNanoseconds: UInt64 = 100_000_000

    nonisolated let executor: LaneExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.asUnownedSerialExecutor()
    }

    let member: ClusterMember
    private var isRunningRound = false
    private var mustRunAgain = false
    private var isStopped = false
    private var timer: LaneTimer?
    /// Since when this node leads, in monotonic nanoseconds.
    private(set) var leadsSince: UInt64?
    /// By joining node: since when this leader waits for it.
    var joins: [NodeNumber: UInt64] = [:]
    /// Deleted buckets: a log index at or after the deletion, and since when it is waited for.
    var deletions: [DeletedBucket: (index: UInt64, at: UInt64)] = [:]
    var failover = FailoverProgress()
    var rebalancing = RebalanceRun()
    /// The id of the rebalance that was requested to stop, even if this leader has not begun it.
    var stopAsked: String?
    var epoch = EpochProgress()
    /// By bucket: since when chosen copies have refused to serve because they are not ready.
    var refusedSince: [String: [VBucketID: UInt64]] = [:]
    /// By bucket: when the orchestrator last chose again for vBuckets of `refusedSince`.
    var choseAnewAt: [String: UInt64] = [:]
    /// By bucket: vBuckets of which only failed-over nodes may have data, with the preconditions.
    var abandoned: [String: [VBucketID: Abandonment]] = [:]
    /// By bucket: since when copies have been sealed although their active copy is confirmed.
    var sealedSince: [String: [VBucketID: UInt64]] = [:]
    /// By bucket: the seqno that a new owner must persist before the former owner drops its copy.
    var formersWaitFor: [String: [VBucketID: (fence: UInt64, high: Seqno)]] = [:]
    /// When copies that do not serve were last asked for reports.
    var unservedAskedAt: UInt64 = 0

    init(_ member: ClusterMember, executor: LaneExecutor) {
        self.member = member
        self.executor = executor
    }

    // MARK: Life

    nonisolated func start() {
        executor.spawn { await self.runRound() }
    }

    func stop() {
        isStopped = true
        timer?.cancel()
        timer = nil
    }

    /// Starts a round after a change: leadership, an entry, a beat.
    nonisolated func requestRound() {
        executor.spawn { await self.runRound() }
    }

    var now: UInt64 { member.environment.time.monotonicNanoseconds() }
    var state: ClusterState { member.state }

    var isLeading: Bool { !isStopped && member.driver.status.isReadyToLead }

    /// Runs one round at a time, and another one if something changed meanwhile.
    private func runRound() async {
        guard !isStopped else { return }
        if isRunningRound {
            mustRunAgain = true
            return
        }
        isRunningRound = true
        timer?.cancel()
        timer = nil
        repeat {
            mustRunAgain = false
            if isLeading {
                if leadsSince == nil { leadsSince = now }
                await act()
            } else {
                leadsSince = nil
                joins = [:]
                deletions = [:]
                abandoned = [:]
            }
        } while mustRunAgain && !isStopped
        isRunningRound = false
        armTimer()
    }

    /// A lone node needs no timer, since every change there starts a round; only copies of a bucket
    /// flush are polled.
    private func armTimer() {
        let isOpen =
            state.rebalance != nil || state.retry != nil || !state.deletedBuckets.isEmpty
            || state.buckets.contains { $0.flush != nil }
        guard isLeading, state.nodes.count > 1 || isOpen else { return }
        timer = member.lane.post(after: Self.intervalNanoseconds) { [weak self] in
            self?.requestRound()
        }
    }

    private func act() async {
        await finishEpoch()
        await reconcileMembers()
        await raiseFeatureLevel()
        await renewSecret()
        await finishJoins()
        await finishDeletions()
        await finishPromotions()
        await replaceUnservedCopies()
        await releaseFormers()
        await watchForFailures()
        await retryRebalance()
        advanceRebalance()
    }

    // MARK: Parts

    /// Proposes as the leader; nil if the outcome is unknown or it failed, which the next round
    /// sees.
    ///
    /// The proposal is not forwarded to another leader: that leader may have newer reports, and the
    /// proposal would be applied between its own steps.
    @discardableResult
    func propose(_ command: ClusterCommand, by login: String? = nil) async -> ClusterOutcome? {
        guard isLeading else { return nil }
        do throws(ClusterError) {
            return try await member.proposeAsLeader(command, by: login)
        } catch {
            if isLeading {
                member.logEvent(
                    .warning,
                    .node,
                    "The cluster's leader could not complete a step and will retry: \(error)"
                )
            }
            return nil
        }
    }

    /// Calls about the copies of a bucket, as of the applied state.
    func copies(of bucket: BucketRecord) -> CopyCalls {
        CopyCalls(
            calls: member.calls,
            term: member.driver.status.term,
            index: state.index,
            bucketUUID: bucket.settings.uuid
        )
    }

    /// The host and admin port of a node, for sentences.
    func name(_ node: NodeNumber) -> String {
        state.node(number: node).map { "\($0.host):\($0.ports.admin)" } ?? "node \(node.value)"
    }
}
