internal import Bytes
internal import Orchestration
internal import Seams
package import Vocabulary

/// What the other nodes said of themselves, kept for whoever shows it.
///
/// - May be read from anywhere; written on the control lane.
final class StatisticsBoard: Sendable {
    struct Entry: Sendable {
        var statistics: NodeStatistics
        var heardAt: UInt64
    }

    struct Core: Sendable {
        var entries: [NodeNumber: Entry] = [:]
        /// Why nodes that are down are not failed over, by the leader's last word.
        var failoverReasons: [String] = []
        /// Looks in a row in which there was nobody who led.
        var looksWithoutLeader = 0
        /// How all nodes were at the last look: a change is told to whoever watches.
        var statuses: [NodeNumber: NodeStatus] = [:]
        /// Changes that copies here gave up, by bucket, while more may come.
        var discarded: [String: UInt64] = [:]
        /// Why the last attempt to reach a node failed, until one succeeds.
        var failures: [NodeNumber: String] = [:]
        /// Nodes that were heard at the last look and could not be reached.
        var unreached: Set<NodeNumber> = []
    }

    let core = Guarded(Core())

    subscript(node: NodeNumber) -> Entry? { core.withLock { $0.entries[node] } }
}

/// "This is how I am": from every node to every other, once a second; on the control lane.
///
/// - One way and unanswered: what is lost is said again.
/// - A lone node sends nothing.
extension AdministrationService {
    private static var interval: UInt64 { 1_000_000_000 }
    /// Statistics of large clusters are fewer: every node sends to every other.
    private static var intervalOfMany: UInt64 { 5_000_000_000 }
    private static var manyNodes: Int { 16 }
    /// Of a node that was silent for so long nothing is shown but that it is.
    private static var silenceMax: UInt64 { 1_500_000_000 }

    func startStatistics() {
        lane.post { self.tickStatistics() }
    }

    func handleStatistics() {
        calls.handleMessages(PeerKind.statistics) { [weak self] from, bytes in
            guard let self, let statistics = NodeStatistics(bytes: bytes) else { return }
            let now = environment.time.monotonicNanoseconds()
            board.core.withLock {
                $0.entries[from] = StatisticsBoard.Entry(statistics: statistics, heardAt: now)
            }
        }
    }

    /// Another node is reached, for the first time or again: it need not wait for the next second.
    func tellStatistics(to node: NodeNumber) {
        guard state.nodes.count > 1 else { return }
        calls.send(PeerKind.statistics, ownStatistics().bytes, to: node, isBulk: true)
    }

    /// A bucket was made: that it serves here need not wait for the next second either.
    ///
    /// Looks often while that is news; whatever takes longer is told with the next statistics.
    func tellWhenServing(_ bucket: String, looksLeft: Int = 25) {
        guard state.nodes.count > 1, looksLeft > 0, !core.withLock({ $0.isStopped }) else { return }
        if status(ofBucket: bucket) == .healthy {
            tellStatistics()
        } else {
            lane.post(after: 20_000_000) { [weak self] in
                self?.tellWhenServing(bucket, looksLeft: looksLeft - 1)
            }
        }
    }

    /// Tells all other nodes, and says who they are.
    @discardableResult
    private func tellStatistics() -> [NodeNumber] {
        let others = state.nodes.map(\.number).filter { $0 != thisNode }
        if !others.isEmpty {
            let bytes = ownStatistics().bytes
            for other in others {
                calls.send(PeerKind.statistics, bytes, to: other, isBulk: true)
            }
        }
        return others
    }

    private func tickStatistics() {
        guard !core.withLock({ $0.isStopped }) else { return }
        let others = tellStatistics()
        noticeStatuses(others)
        tellDiscarded()
        let isMany = others.count >= Self.manyNodes
        lane.post(after: isMany ? Self.intervalOfMany : Self.interval) { [weak self] in
            self?.tickStatistics()
        }
    }

    /// Says what copies here gave up because the cluster went on without it, once no more comes.
    private func tellDiscarded() {
        let found = dataPlane.takeDiscarded()
        let settled: [String: UInt64] = board.core.withLock { core in
            core.discarded.merge(found) { $0 + $1 }
            guard found.isEmpty else { return [:] }
            defer { core.discarded = [:] }
            return core.discarded
        }
        for (bucket, count) in settled.sorted(by: { $0.key < $1.key }) {
            let changes = count == 1 ? "1 change" : "\(count) changes"
            tell(
                .warning,
                .node,
                "This node gave up \(changes) of bucket “\(bucket)” that no other node had: the "
                    + "cluster went on without it before it could pass them on."
            )
        }
    }

    /// Forgets who left, tells whoever watches of a node that is up or down now, asks why nodes that
    /// are down are not failed over.
    private func noticeStatuses(_ others: [NodeNumber]) {
        let isLed = member.driver.status.leader != nil
        var statuses: [NodeNumber: NodeStatus] = [:]
        for node in others { statuses[node] = status(of: node) }
        let isChanged = board.core.withLock { core in
            core.entries = core.entries.filter { others.contains($0.key) }
            core.looksWithoutLeader = isLed || others.isEmpty ? 0 : core.looksWithoutLeader + 1
            defer { core.statuses = statuses }
            return core.statuses != statuses
        }
        if isChanged { tellWatchers() }
        noticeUnreached(others)
        let isDown = state.activeNodes.contains { statuses[$0.number] == .unhealthy }
        guard isDown, isLed else { return board.core.withLock { $0.failoverReasons = [] } }
        executor.spawn { [weak self] in
            guard let self else { return }
            let reasons = await failoverReasons()
            board.core.withLock { $0.failoverReasons = reasons }
        }
    }

    private func noticeUnreached(_ others: [NodeNumber]) {
        let unreached = others.filter { isSilent($0) && isUnreached($0) }
        let news = board.core.withLock { core in
            core.failures = core.failures.filter { others.contains($0.key) }
            defer { core.unreached = Set(unreached) }
            return unreached.filter { !core.unreached.contains($0) }
        }
        for node in news { tell(.warning, .node, silenceSentence(node)) }
    }

    private func ownStatistics() -> NodeStatistics {
        var own = NodeStatistics()
        own.status = nodeStatus
        own.uptimeSeconds = uptimeSeconds
        let read = core.withLock { $0.machine }
        own.machine = read.map { $0() } ?? MachineReading()
        (own.diskFree, own.diskTotal) = diskSpace ?? (0, 0)
        own.directory = settings.directory
        own.memcachedBucket = settings.memcached?.bucket ?? ""
        own.buckets = state.buckets.compactMap { bucket in
            let name = bucket.settings.name
            guard let statistics = dataPlane.statistics(ofBucket: name) else { return nil }
            var rates: [NodeStatistics.Rate: Double] = [:]
            for rate in NodeStatistics.Rate.allCases {
                rates[rate] = sampler.newest(rate.sampled, ofBucket: name)
            }
            return NodeStatistics.Bucket(
                name: name,
                status: status(ofBucket: name),
                statistics: statistics,
                rates: rates
            )
        }
        return own
    }

    // MARK: For whoever shows it, from anywhere

    /// How to ask this machine for its memory and processors.
    package func readMachine(_ read: @escaping @Sendable () -> MachineReading) {
        core.withLock { $0.machine = read }
    }

    /// What a node says of itself: this one now, others a moment ago; nil of one that is silent.
    package func statistics(of node: NodeNumber) -> NodeStatistics? {
        if node == thisNode { return ownStatistics() }
        guard let entry = board[node] else { return nil }
        let now = environment.time.monotonicNanoseconds()
        let isMany = state.nodes.count > Self.manyNodes
        let patience = 3 * (isMany ? Self.intervalOfMany : Self.interval)
        return now < entry.heardAt + patience && !isSilent(node) ? entry.statistics : nil
    }

    /// The same, however long ago.
    package func lastStatistics(of node: NodeNumber) -> NodeStatistics? {
        node == thisNode ? ownStatistics() : board[node]?.statistics
    }

    /// As healthy as the worst of its buckets; unhealthy where nobody hears of it.
    package func status(of node: NodeNumber) -> NodeStatus {
        if node == thisNode { return nodeStatus }
        if isSilent(node) { return .unhealthy }
        // It was heard, and has not told yet how it is.
        return statistics(of: node)?.status ?? .warmup
    }

    /// How a node serves one bucket.
    package func status(of node: NodeNumber, ofBucket name: String) -> NodeStatus {
        if node == thisNode { return status(ofBucket: name) }
        if isSilent(node) { return .unhealthy }
        guard let statistics = statistics(of: node) else { return .warmup }
        return statistics.bucket(named: name)?.status ?? .unhealthy
    }

    func isSilent(_ node: NodeNumber) -> Bool {
        member.beats.silence(of: node) >= Self.silenceMax
    }

    private func isUnreached(_ node: NodeNumber) -> Bool {
        member.beats.isUnreached(node, within: Self.silenceMax)
    }

    /// What is wrong with a node that is silent.
    func silenceSentence(_ node: NodeNumber) -> String {
        let name = state.node(number: node).map { "\($0.host):\($0.ports.admin)" } ?? "\(node)"
        guard isUnreached(node), let address = transport.address(of: node) else {
            return "Node \(name) does not answer."
        }
        let reason = board.core.withLock { $0.failures[node] }.map { " (\($0))" } ?? ""
        let place = SocketAddress(host: address.host, port: address.port)
        return "Node \(name) is heard and cannot be reached at \(place)\(reason): it counts as "
            + "down. See to it that it listens there (--bind, --peer-port), and that this node may "
            + "connect to that port."
    }

    /// The node that leads now, as far as this one knows.
    package var orchestratorNode: NodeNumber? { member.driver.status.leader }
}
