internal import Bytes
internal import Consensus
internal import Orchestration
internal import Seams
internal import Vocabulary

/// What the leader does: sees to it that the cluster becomes what its state says.
///
/// It keeps nothing of its own that a new leader would need: what was begun is in the agreed state,
/// and each look begins from there. Policy is in `Orchestration`, here is only the carrying out.
///
/// - Everything runs on the control lane, after every suspension too.
/// - It acts only while this node leads and has applied what was committed before it did. What it
///   proposed may be applied long after that: so each step says what it rests on (a fence, a stage,
///   a rebalance's id, that nothing is lost by it), and comes to nothing where that is not so.
actor Orchestrator {
    /// Between two looks where nothing happens; changes are looked at at once.
    private static let interval: UInt64 = 100_000_000

    nonisolated let executor: LaneExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor {
        executor.asUnownedSerialExecutor()
    }

    let member: ClusterMember
    private var isLooking = false
    private var mustLookAgain = false
    private var isStopped = false
    private var timer: LaneTimer?
    /// Since when this node leads, in monotonic nanoseconds.
    private(set) var leadsSince: UInt64?
    var joins: [NodeNumber: UInt64] = [:]
    /// Buckets that were deleted: an entry of the log behind that, and since when it is waited for.
    var deletions: [DeletedBucket: (index: UInt64, at: UInt64)] = [:]
    var autoFailover = AutoFailoverProgress()
    var rebalancing = RebalanceProgressBoard()
    /// The rebalance that is to stop, begun here or not yet.
    var stopAsked: String?
    var epoch = EpochProgress()
    /// By bucket: since when chosen copies have not become ready.
    var refusedSince: [String: [VBucketID: UInt64]] = [:]
    /// By bucket: when others were last asked instead of those.
    var choseAnewAt: [String: UInt64] = [:]
    /// By bucket: what all who may be asked have nothing of, and somebody may who was failed over.
    var abandoned: [String: [VBucketID: Abandonment]] = [:]
    /// By bucket: since when copies are known to be sealed though their active one is confirmed.
    var sealedSince: [String: [VBucketID: UInt64]] = [:]
    /// Up to where the disks of those who took over have to be, until the former owners may go.
    var formersWaitFor: [String: [VBucketID: (fence: UInt64, high: Seqno)]] = [:]
    /// Copies that their nodes hold back are asked about so often at most.
    var askedAboutHeld: UInt64 = 0

    init(_ member: ClusterMember, executor: LaneExecutor) {
        self.member = member
        self.executor = executor
    }

    // MARK: Life

    nonisolated func start() {
        executor.spawn { await self.look() }
    }

    func stop() {
        isStopped = true
        timer?.cancel()
        timer = nil
    }

    /// Something changed: leadership, an entry, a beat.
    nonisolated func notice() {
        executor.spawn { await self.look() }
    }

    var now: UInt64 { member.environment.time.monotonicNanoseconds() }
    var state: ClusterState { member.state }

    var isLeading: Bool { !isStopped && member.driver.status.isReadyToLead }

    /// One look after the other, and once more where something changed meanwhile.
    private func look() async {
        guard !isStopped else { return }
        if isLooking {
            mustLookAgain = true
            return
        }
        isLooking = true
        timer?.cancel()
        timer = nil
        repeat {
            mustLookAgain = false
            if isLeading {
                if leadsSince == nil { leadsSince = now }
                await act()
            } else {
                leadsSince = nil
                joins = [:]
                deletions = [:]
                abandoned = [:]
            }
        } while mustLookAgain && !isStopped
        isLooking = false
        armTimer()
    }

    /// A lone node has nobody to look after: whatever changes there tells of itself, but for copies
    /// that a flush waits for.
    private func armTimer() {
        let isOpen =
            state.rebalance != nil || state.retry != nil || !state.deletedBuckets.isEmpty
            || state.buckets.contains { $0.flush != nil }
        guard isLeading, state.nodes.count > 1 || isOpen else { return }
        timer = member.lane.post(after: Self.interval) { [weak self] in self?.notice() }
    }

    private func act() async {
        await finishEpoch()
        await reconcileMembers()
        await finishJoins()
        await finishDeletions()
        await finishPromotions()
        await restoreHeldCopies()
        await releaseFormers()
        await watchForFailures()
        await retryRebalance()
        advanceRebalance()
    }

    // MARK: Parts

    /// Proposes as the leader: nil where it came to nothing, which the next look will see.
    ///
    /// What follows from what this leader knows is not passed on to the next one: that one may know
    /// better by then, and would have it applied under what it does itself.
    @discardableResult
    func propose(_ command: ClusterCommand) async -> ClusterOutcome? {
        guard isLeading else { return nil }
        do throws(ClusterError) {
            return try await member.proposeAsLeader(command)
        } catch {
            if isLeading {
                member.tell(.warning, .node, "A step of the cluster's leader failed: \(error)")
            }
            return nil
        }
    }

    /// Questions about the copies of a bucket, as of what is applied here.
    func copies(of bucket: BucketRecord) -> CopyCalls {
        CopyCalls(
            calls: member.calls,
            term: member.driver.status.term,
            index: state.index,
            bucketUUID: bucket.settings.uuid
        )
    }

    func name(_ node: NodeNumber) -> String {
        state.node(number: node).map { "\($0.host):\($0.ports.admin)" } ?? "node \(node.value)"
    }
}
