internal import Bytes
internal import DataService
internal import Engine
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary
internal import Wire

/// Follows some vBuckets of each bucket through visible-only feeds, on changing nodes, and compares
/// the followers with the copies.
///
/// - Feed: a follower receives changes in order, inside snapshots, and no prepare or abort. At a
///   copy's high seqno it has the copy's versions.
/// - Acknowledged: at the end it has every acknowledged write (`AcknowledgedWrites`).
/// - Live: at the end it reaches the active copy's high seqno.
///
/// Runs in a quarter of the seeds only, because feeds hold cursors and so change memory use, and in
/// each seed of the workload `attributes`.
final class FeedWatch {
    /// One vBucket of one bucket.
    struct Place: Hashable {
        let bucket: String
        let number: Int
    }

    /// An open feed, and the process that serves it.
    private struct Reading {
        let feed: VBucketFeed
        let address: String
        let process: Int
        /// The failover log of the copy when the feed was opened.
        let log: FailoverLog
        var uuid: VBucketUUID { log.current.uuid }
    }

    private static let intervalNanoseconds: UInt64 = 25_000_000
    private static let vBucketsOfBucket = 4
    private static let stepsMax = 40
    /// Steps without a change before a follower continues on another node.
    private static let idleMax = 80

    let cluster: SimulatedCluster
    let verifier: Verifier
    private var dice: SeededRandom
    private var followers: [Place: FeedChecker] = [:]
    private var readings: [Place: Reading] = [:]
    private var idle: [Place: Int] = [:]
    private var turn = 0
    private(set) var tally = Tally()
    /// At the end, followers read active copies only.
    private var isEnding = false

    /// - Returns: Nil if the seed has no followers.
    init?(_ cluster: SimulatedCluster, _ verifier: Verifier, plan: SimulationPlan) {
        let isOften = plan.workload == "attributes"
        guard isOften || [4, 7, 10].contains(plan.seed % 12) else { return nil }
        self.cluster = cluster
        self.verifier = verifier
        dice = SeededRandom(seed: plan.seed ^ 0x66_6565_6473)
    }

    func start() { scheduleStep() }

    private func scheduleStep() {
        cluster.world.after(FeedWatch.intervalNanoseconds) { [weak self] in
            guard let self else { return }
            followBuckets()
            scheduleStep()
        }
    }

    private func followBuckets() {
        guard let state = cluster.newestState else { return }
        for bucket in state.buckets {
            let count = bucket.placements.count
            for index in 0..<min(FeedWatch.vBucketsOfBucket, count) {
                let place = Place(bucket: bucket.settings.name, number: index * 5 % count)
                follow(place, bucket)
            }
        }
    }

    // MARK: Reading

    private func follow(_ place: Place, _ bucket: BucketRecord) {
        if readings[place] == nil { open(place, bucket) }
        guard let reading = readings[place] else { return }
        guard let node = cluster.nodes.first(where: { $0.address == reading.address }),
            node.restarts == reading.process, node.node != nil
        else { return end(place) }
        guard !node.host.isFrozen else { return }
        let output = ByteWriter()
        let credit = 1 + Int(dice.next() % 20_000)
        var progress = StreamProgress.again
        for _ in 0..<FeedWatch.stepsMax where progress == .again {
            output.removeAll()
            progress = reading.feed.step(credit: credit, into: output)
            receive(output.view, place)
        }
        switch progress {
        case .over: end(place)
        case .asleep: compare(place, reading)
        case .again, .awaitsCredit: break
        }
        idle[place, default: 0] += output.count == 0 ? 1 : 0
        if !isEnding, idle[place] ?? 0 > FeedWatch.idleMax { end(place) }
    }

    private func end(_ place: Place) {
        idle[place] = 0
        readings.removeValue(forKey: place)?.feed.close()
    }

    private func receive(_ bytes: ByteView, _ place: Place) {
        var offset = 0
        while case .frame(let frame) = FrameDecoder().next(in: bytes.dropFirst(offset)) {
            offset += frame.byteCount
            guard case .changes(let message) = NodeStreamMessage(frame) else {
                let opcode = frame.header.opcodeByte
                return verifier.reportFlaw(
                    "Feed: \(place.bucket) \(place.number): opcode \(opcode)"
                )
            }
            if case .change(let change) = message {
                let source = AttributeLedger.Source(
                    "a feed of \(place.number)",
                    log: currentLog(of: place)
                )
                verifier.sees(change, of: place.bucket, by: source)
            }
            followers[place]?.receive(message)
        }
        guard let flaw = followers[place]?.flaw else { return }
        verifier.reportFlaw("Feed: \(place.bucket) \(place.number) received \(flaw)")
        followers[place] = FeedChecker()
        end(place)
    }

    /// The failover log of what a feed sends; nil if its copy has another history by now.
    private func currentLog(of place: Place) -> FailoverLog? {
        guard let reading = readings[place] else { return nil }
        let uuid = reading.feed.bucket.engine.all[place.number].withCore { $0.uuid }
        return uuid == reading.uuid ? reading.log : nil
    }

    /// Requests a feed from each node until one accepts, beginning with another node each time.
    private func open(_ place: Place, _ bucket: BucketRecord) {
        turn += 1
        let nodes = cluster.nodes
        let owner = bucket.placements[place.number].chain.first
        let active = cluster.newestState?.nodes.first { $0.number == owner }?.host
        for index in nodes.indices {
            let node = nodes[(index + turn) % nodes.count]
            guard !isEnding || node.address == active, !node.host.isFrozen, !node.isStopping,
                let data = node.node?.data, let open = data.bucket(named: place.bucket),
                open.uuid == bucket.settings.uuid
            else { continue }
            if request(data, open, at: place, on: node) { return }
        }
    }

    private func request(
        _ data: DocumentService,
        _ bucket: OpenBucket,
        at place: Place,
        on node: SimulatedNode
    ) -> Bool {
        let id = VBucketID(UInt16(place.number))
        let address = NodeStreamAddress(channel: 0, vBucket: id)
        let encoder = DCPEncoder(vBucket: id, opaque: address.opaque)
        let consumer = FeedConsumer.visibleOnly(
            encode: { encoder.append($0, at: address, to: $1) },
            wake: {}
        )
        var follower = followers[place] ?? FeedChecker()
        defer { followers[place] = follower }
        switch data.openFeed(of: id, in: bucket, follower.request, for: consumer) {
        case .opened(let feed, _, let log):
            follower.uuid = log.current.uuid
            readings[place] = Reading(
                feed: feed,
                address: node.address,
                process: node.restarts,
                log: log
            )
            tally[.check, "feeds"] += 1
            return true
        case .rollBack(let seqno, let log):
            // A replica of the same history is only behind: try another node, do not roll back.
            if !isEnding, log.current.uuid == follower.uuid, follower.position > seqno { break }
            tally[.check, "feedRollbacks"] += 1
            follower.rollBack(to: seqno)
        case .outOfRange:
            verifier.reportFlaw(
                "Feed: \(place.bucket) \(id) refuses \(follower.request) as out of range"
            )
        case .noVBucket, .notAdmitted, .notLoaded: break
        }
        return false
    }

    // MARK: Comparing

    /// At a copy's high seqno, a follower must have the copy's versions.
    private func compare(_ place: Place, _ reading: Reading) {
        guard let follower = followers[place], !follower.isInSnapshot else { return }
        let vBucket = reading.feed.bucket.engine.all[place.number]
        var isComplete = true
        let versions: [[UInt8]: CopyContent.Version]? = vBucket.withCore { core in
            guard core.isLoaded, core.openSnapshot == nil, core.uuid == reading.uuid,
                core.highSeqno == follower.position, !core.ownership.isResetting
            else { return nil }
            isComplete = core.table.stubCount == 0
            var versions: [[UInt8]: CopyContent.Version] = [:]
            _ = core.table.visit(from: 0, groupsMax: .max / 2) { item in
                versions[item.key.bytes] = CopyContent.Version(item)
            }
            return versions
        }
        guard let versions else { return }
        tally[.check, "feedComparisons"] += 1
        guard let flaw = follower.difference(from: versions, isComplete: isComplete) else { return }
        verifier.reportFlaw("Feed: \(place.bucket) \(place.number) of \(reading.address): \(flaw)")
        followers[place] = FeedChecker()
        end(place)
    }

    // MARK: The end

    /// Moves all followers to active copies, and waits until they have everything.
    func conclude() {
        isEnding = true
        for place in Array(readings.keys) { end(place) }
        if !cluster.waitUntil(seconds: 20, { lagging.isEmpty }) {
            for place in lagging.prefix(3) {
                let position = followers[place]?.position.value ?? 0
                verifier.reportFlaw(
                    "Live: a feed of \(place.bucket) \(place.number) stays at \(position)"
                )
            }
        }
        for follower in followers.values {
            tally[.check, "feedChanges"] += follower.changes
            tally[.check, "feedAdvances"] += follower.advances
            tally[.check, "feedRestarts"] += follower.restarts
        }
    }

    /// Followers of served vBuckets that have not reached the active copy's high seqno.
    private var lagging: [Place] {
        guard let state = cluster.newestState else { return [] }
        return followers.keys.filter { place in
            guard let placement = state.bucket(named: place.bucket)?.placements[place.number],
                let high = active(place, placement)?.withCore({ core in
                    core.state == .active ? core.highSeqno : nil
                })
            else { return false }
            return followers[place].map { $0.position < high } ?? false
        }
    }

    private func active(_ place: Place, _ placement: VBucketPlacement) -> VBucket? {
        guard placement.isConfirmed, let owner = placement.chain.first,
            let host = cluster.newestState?.node(number: owner)?.host,
            let node = cluster.nodes.first(where: { $0.address == host })
        else { return nil }
        return node.node?.data.bucket(named: place.bucket)?.engine.all[place.number]
    }

    /// A follower's content, if it is whole and of the history that `log` names.
    func content(of bucket: String, _ vBucket: VBucketID, _ log: FailoverLog) -> CopyContent? {
        let place = Place(bucket: bucket, number: Int(vBucket.number))
        guard let follower = followers[place], !follower.isInSnapshot,
            readings[place]?.uuid == log.current.uuid
        else { return nil }
        return CopyContent(log: log, covered: follower.position, documents: follower.documents)
    }
}
