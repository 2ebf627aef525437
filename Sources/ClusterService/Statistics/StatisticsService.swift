internal import Bytes
package import Orchestration
internal import Seams
package import Vocabulary

/// The health of a node: the dot in a console.
package enum NodeStatus: String, Sendable {
    /// Every bucket serves everything.
    case healthy
    /// A bucket is still being read from disk.
    case warmup
    /// A bucket does not serve.
    case unhealthy
}

/// Statistics received from the other nodes.
///
/// - May be read from any thread; written on the control lane.
final class ReceivedStatistics: Sendable {
    struct Entry: Sendable {
        var statistics: NodeStatistics
        var heardAt: UInt64
    }

    struct ViewEntry: Sendable {
        var statistics: ViewStatistics
        var heardAt: UInt64
    }

    struct Core: Sendable {
        var entries: [NodeNumber: Entry] = [:]
        /// Of nodes that have views.
        var views: [NodeNumber: ViewEntry] = [:]
        /// Reads this node's indexes.
        var readViews: (@Sendable () -> ViewStatistics?)?
        /// When this node's indexes are sent.
        var viewSending = ViewSending()
        /// Why nodes that are down are not failed over, as last reported by the leader.
        var failoverReasons: [String] = []
        /// How many consecutive ticks there has been no leader.
        var ticksWithoutLeader = 0
        /// The status of each node at the last tick: a change wakes watchers.
        var statuses: [NodeNumber: NodeStatus] = [:]
        /// By bucket: changes that copies here discarded, while the number may still grow.
        var discarded: [String: UInt64] = [:]
        /// By bucket UUID: the last known number of documents of each vBucket.
        var lastItems: [String: [UInt64]] = [:]
    }

    let core = Guarded(Core())

    subscript(node: NodeNumber) -> Entry? { core.withLock { $0.entries[node] } }
}

/// Sends this node's statistics to every other node once a second; on the control lane.
///
/// - Without acknowledgement: a lost message is replaced by the next one.
/// - A lone node sends nothing.
package final class StatisticsService: Sendable {
    let cluster: Cluster
    package let sampler: StatisticsSampler
    /// Statistics received from the other nodes.
    let receivedStatistics = ReceivedStatistics()
    /// Reads the machine's memory and processors.
    private let machine = Guarded<(@Sendable () -> MachineReading)?>(nil)

    init(_ cluster: Cluster) {
        self.cluster = cluster
        sampler = StatisticsSampler(time: cluster.environment.time, lane: cluster.lane)
    }

    private static var intervalNanoseconds: UInt64 { 1_000_000_000 }
    /// In large clusters statistics are sent less often, because every node sends to every other.
    private static var intervalOfManyNodesNanoseconds: UInt64 { 5_000_000_000 }
    private static var manyNodes: Int { 16 }

    func start() {
        sampler.start(
            reading: StatisticsSampler.Source(
                plane: cluster.dataPlane,
                views: { [weak self] in self?.ownViewStatistics() },
                names: { [weak self] in self?.cluster.state.buckets.map(\.settings.name) ?? [] }
            )
        )
        cluster.lane.post { self.tickStatistics() }
    }

    func handleCalls() {
        handleViewStatistics()
        cluster.calls.handleMessages(PeerKind.statistics) { [weak self] from, bytes in
            guard let self, let statistics = NodeStatistics(message: bytes) else { return }
            let now = cluster.monotonicNanoseconds
            receivedStatistics.core.withLock {
                $0.entries[from] = ReceivedStatistics.Entry(statistics: statistics, heardAt: now)
            }
        }
    }

    /// Sends statistics to a node that has just been connected to, without waiting for the next
    /// tick.
    func sendStatistics(to node: NodeNumber) {
        guard cluster.state.nodes.count > 1 else { return }
        cluster.calls.send(PeerKind.statistics, ownStatistics().encoded, to: node, isBulk: true)
        // Without a change they would be sent only with the next refresh.
        guard let views = ownViewStatistics() else { return }
        cluster.calls.send(PeerKind.viewStatistics, views.encoded, to: node, isBulk: true)
    }

    /// Sends statistics as soon as a new bucket serves here, without waiting for the next tick.
    ///
    /// Checks often for half a second; afterwards the regular statistics report it.
    func sendStatisticsWhenServing(_ bucket: String, checksLeft: Int = 25) {
        guard cluster.state.nodes.count > 1, checksLeft > 0,
            !cluster.isStopped
        else {
            return
        }
        if status(ofBucket: bucket) == .healthy {
            sendStatistics()
        } else {
            cluster.lane.post(after: 20_000_000) { [weak self] in
                self?.sendStatisticsWhenServing(bucket, checksLeft: checksLeft - 1)
            }
        }
    }

    /// Sends this node's statistics to all other nodes; returns those nodes.
    @discardableResult
    private func sendStatistics() -> [NodeNumber] {
        let others = cluster.state.nodes.map(\.number).filter { $0 != cluster.thisNode }
        if !others.isEmpty {
            let bytes = ownStatistics().encoded
            for other in others {
                cluster.calls.send(PeerKind.statistics, bytes, to: other, isBulk: true)
            }
        }
        return others
    }

    private func tickStatistics() {
        guard !cluster.isStopped else { return }
        let others = sendStatistics()
        sendViewStatistics(to: others)
        if !others.isEmpty { noteItems() }
        updateStatuses(others)
        logDiscardedChanges()
        let isMany = others.count >= Self.manyNodes
        cluster.lane.post(
            after: isMany ? Self.intervalOfManyNodesNanoseconds : Self.intervalNanoseconds
        ) {
            [weak self] in
            self?.tickStatistics()
        }
    }

    /// Keeps the numbers of documents, for vBuckets that no report has while they move.
    private func noteItems() {
        let buckets = cluster.state.buckets
        for bucket in buckets { _ = documentCount(ofBucket: bucket.settings.name) }
        let known = Set(buckets.map(\.settings.uuid))
        receivedStatistics.core.withLock { core in
            core.lastItems = core.lastItems.filter { known.contains($0.key) }
        }
    }

    /// Logs how many changes copies here discarded, once the number does not grow any more.
    private func logDiscardedChanges() {
        let found = cluster.dataPlane.removeDiscardedCounts()
        let settled: [String: UInt64] = receivedStatistics.core.withLock { core in
            core.discarded.merge(found) { $0 + $1 }
            guard found.isEmpty else { return [:] }
            defer { core.discarded = [:] }
            return core.discarded
        }
        for (bucket, count) in settled.sorted(by: { $0.key < $1.key }) {
            let changes = count == 1 ? "1 change" : "\(count) changes"
            cluster.logEvent(
                .warning,
                .node,
                of: bucket,
                "This node discarded \(changes) of bucket “\(bucket)” that no other node had: the "
                    + "cluster had failed the node over before it could replicate them."
            )
        }
    }

    /// Removes nodes that left, wakes watchers if a node went up or down, and asks the leader why
    /// nodes that are down are not failed over.
    private func updateStatuses(_ others: [NodeNumber]) {
        let isLed = cluster.member.driver.status.leader != nil
        var statuses: [NodeNumber: NodeStatus] = [:]
        for node in others { statuses[node] = status(of: node) }
        let isChanged = receivedStatistics.core.withLock { core in
            core.entries = core.entries.filter { others.contains($0.key) }
            core.views = core.views.filter { others.contains($0.key) }
            core.ticksWithoutLeader = isLed || others.isEmpty ? 0 : core.ticksWithoutLeader + 1
            defer { core.statuses = statuses }
            return core.statuses != statuses
        }
        if isChanged { cluster.wakeWatchers() }
        let isDown = cluster.state.activeNodes.contains { statuses[$0.number] == .unhealthy }
        guard isDown, isLed else {
            return receivedStatistics.core.withLock { $0.failoverReasons = [] }
        }
        cluster.executor.spawn { [weak self] in
            guard let self else { return }
            let reasons = await failoverReasons()
            receivedStatistics.core.withLock { $0.failoverReasons = reasons }
        }
    }

    /// Why nodes that are down are not failed over; empty if there is no reason or no leader.
    package func failoverReasons() async -> [String] {
        guard cluster.state.nodes.count > 1,
            case .reasons(let reasons) = await cluster.askLeader(
                .failoverReasons,
                timeoutNanoseconds: 1_000_000_000
            )
        else { return [] }
        return reasons
    }

    private func ownStatistics() -> NodeStatistics {
        var own = NodeStatistics()
        own.status = nodeStatus
        own.uptimeSeconds = cluster.uptimeSeconds
        let read = machine.withLock { $0 }
        own.machine = read.map { $0() } ?? MachineReading()
        (own.diskFree, own.diskTotal) = cluster.diskSpace ?? (0, 0)
        own.directory = cluster.settings.directory
        own.memcachedBucket = cluster.settings.memcached?.bucket ?? ""
        own.buckets = cluster.state.buckets.compactMap { bucket in
            let name = bucket.settings.name
            guard let statistics = cluster.dataPlane.statistics(ofBucket: name) else { return nil }
            var rates: [Statistic: Double] = [:]
            for rated in NodeStatistics.rated {
                rates[rated] = sampler.newest(rated, ofBucket: name)
            }
            return NodeStatistics.Bucket(
                name: name,
                status: status(ofBucket: name),
                statistics: statistics,
                rates: rates,
                compaction: cluster.dataPlane.compaction(ofBucket: name)
            )
        }
        return own
    }

    // MARK: For other modules, from any thread

    /// Sets how to read the machine's memory and processors.
    package func readMachine(_ read: @escaping @Sendable () -> MachineReading) {
        machine.withLock { $0 = read }
    }

    /// The statistics of a node, at most a few seconds old; nil if the node does not answer.
    package func current(of node: NodeNumber) -> NodeStatistics? {
        if node == cluster.thisNode { return ownStatistics() }
        guard let entry = receivedStatistics[node], isCurrent(entry.heardAt, node) else {
            return nil
        }
        return entry.statistics
    }

    /// Whether what a node sent at that time is shown.
    func isCurrent(_ heardAt: UInt64, _ node: NodeNumber) -> Bool {
        let now = cluster.monotonicNanoseconds
        let isMany = cluster.state.nodes.count > Self.manyNodes
        let timeoutNanoseconds =
            3 * (isMany ? Self.intervalOfManyNodesNanoseconds : Self.intervalNanoseconds)
        return now < heardAt + timeoutNanoseconds && !cluster.isSilent(node)
    }

    /// The documents of a bucket on all nodes that answer; those of other nodes are as of some
    /// seconds ago.
    package func documentCount(ofBucket name: String) -> UInt64 {
        let state = cluster.state
        guard let bucket = state.bucket(named: name) else { return 0 }
        var known: [NodeNumber: CopyItems] = [:]
        for node in state.nodes.map(\.number) where node != cluster.thisNode {
            known[node] = current(of: node)?.copies(ofBucket: name)
        }
        known[cluster.thisNode] = cluster.dataPlane.statistics(ofBucket: name)?.copies
        return itemCounts(of: bucket, known).values.reduce(0, &+)
    }

    /// The documents of a bucket by node, each counted once.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - known: The copies of each node with current statistics.
    /// - Returns: The numbers of nodes that answer; their sum is that of the bucket.
    package func itemCounts(
        of bucket: BucketRecord,
        _ known: [NodeNumber: CopyItems]
    ) -> [NodeNumber: UInt64] {
        let activeNodes = bucket.placements.map(\.chain.first)
        // A node that answers and has not reported yet may be active by the state.
        let reports = cluster.state.nodes.map(\.number)
            .filter { known[$0] != nil || $0 == cluster.thisNode || !cluster.isSilent($0) }
            .map { (node: $0, copies: known[$0] ?? CopyItems()) }
        return receivedStatistics.core.withLock { core in
            CopyItems.count(
                activeNodes: activeNodes,
                reports,
                last: &core.lastItems[bucket.settings.uuid, default: []]
            )
        }
    }

    /// The last known statistics of a node, however old; nil if there are none.
    package func last(of node: NodeNumber) -> NodeStatistics? {
        node == cluster.thisNode ? ownStatistics() : receivedStatistics[node]?.statistics
    }

    /// The worst of a node's bucket states; unhealthy if the node does not answer.
    package func status(of node: NodeNumber) -> NodeStatus {
        if node == cluster.thisNode { return nodeStatus }
        if cluster.isSilent(node) { return .unhealthy }
        // Its beats arrive, but its statistics have not arrived yet.
        return current(of: node)?.status ?? .warmup
    }

    /// The state of one bucket on a node.
    package func status(of node: NodeNumber, ofBucket name: String) -> NodeStatus {
        if node == cluster.thisNode { return status(ofBucket: name) }
        if cluster.isSilent(node) { return .unhealthy }
        guard let statistics = current(of: node) else { return .warmup }
        return statistics.bucket(named: name)?.status ?? .unhealthy
    }

    /// The worst of its buckets' states.
    package var nodeStatus: NodeStatus {
        let state = cluster.state
        // A node that waits for a rebalance has no bucket open, and is healthy.
        guard state.node(number: cluster.thisNode)?.membership == .active else { return .healthy }
        let statuses = state.buckets.map { status(ofBucket: $0.settings.name) }
        let isUnfollowed = cluster.core.withLock { $0.unfollowed != nil }
        if statuses.contains(.unhealthy) || isUnfollowed { return .unhealthy }
        return statuses.contains(.warmup) ? .warmup : .healthy
    }

    /// The state of one bucket on this node.
    package func status(ofBucket name: String) -> NodeStatus {
        switch cluster.dataPlane.status(ofBucket: name) {
        case .ready: .healthy
        case .warmingUp: .warmup
        case .failed, nil: .unhealthy
        }
    }
}
