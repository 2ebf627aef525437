internal import Bytes
package import Orchestration
internal import Seams
internal import Vocabulary
internal import Wire

/// One HTTP feed: the changes of a bucket, collected from all nodes that serve its vBuckets.
///
/// It carries out `ChangesCollection`: follows the map, opens vBuckets on the nodes' links, and converts
/// their messages to events for its one consumer.
///
/// - The window of a link (`NodeService`) bounds what is received and not consumed. A consumer that does
///   not call `next` receives nothing more.
/// - Only the consumer's task changes the collector; links and timers put events into the inbox.
package final class ClusterChanges: Sendable {
    /// The content and the end of a feed.
    package struct Request: Sendable {
        package var feed: ChangesCollection.Feed
        /// Whether changes have the values of documents.
        package var hasValues = false
        /// The number of changes after which the feed ends; nil for no limit.
        package var limit: Int?

        package init(feed: ChangesCollection.Feed) {
            self.feed = feed
        }
    }

    struct Collector {
        var machine: ChangesCollection
        var links: [NodeNumber: ChangesLink] = [:]
        /// When streams are opened again; nil if there is no need.
        var retryAt: UInt64?
        /// Since when a vBucket lacks its stream; nil if none does.
        var missingSince: UInt64?
        /// Events that `begin` received: rollbacks, since nodes send no changes then.
        var early: [ChangesEvent] = []
        /// Whether nodes may send changes.
        var hasBegun = false
    }

    struct Inbox {
        var events: [(link: ChangesLink, event: ChangesLink.Event)] = []
        var mapChanged = true
        var waiter: UnsafeContinuation<Void, Never>?
        var isWoken = false
        var isClosed = false
    }

    /// The pause before a stream is opened again.
    static let retryNanoseconds: UInt64 = 100_000_000
    /// The pause after a lost connection.
    private static let reconnectNanoseconds: UInt64 = 500_000_000
    /// vBuckets inside a snapshot at a time, fewer than a token describes.
    static let snapshotsMax = 24
    /// How long a vBucket may have no owner before a feed that has to end fails.
    private static let missingNanosecondsMax: UInt64 = 30_000_000_000

    let bucketUUID: String
    let bucketName: String
    let request: Request
    let cluster: Cluster
    private let slot: FeedSlot
    let collector: Guarded<Collector>
    let inbox = Guarded(Inbox())
    private let observer = Guarded<UInt64?>(nil)

    init(
        _ request: Request,
        from token: ChangesToken,
        ofBucket name: String,
        _ cluster: Cluster,
        _ slot: FeedSlot
    ) {
        self.request = request
        self.cluster = cluster
        self.slot = slot
        bucketName = name
        bucketUUID = token.bucket
        let machine = ChangesCollection(
            positions: token.positions,
            feed: request.feed,
            limit: request.limit
        )
        collector = Guarded(Collector(machine: machine))
        let number = cluster.observeChanges { [weak self] in
            self?.signal { $0.mapChanged = true }
        }
        observer.withLock { $0 = number }
    }

    var now: UInt64 { cluster.monotonicNanoseconds }
    var lane: any Lane { cluster.environment.network.lane(ofReactor: 0) }

    /// The token of everything that `next` returned so far.
    package var token: String {
        let positions = collector.withLock { $0.machine.positions }
        return ChangesToken(bucket: bucketUUID, positions: positions).text
    }

    // MARK: For the consumer

    /// Waits until nodes have accepted all positions.
    ///
    /// A feed that stays begins at the deadline also without some vBuckets: it has their changes as
    /// soon as a node serves them.
    ///
    /// - Parameter nanoseconds: The longest wait.
    /// - Returns: Nil if the feed has begun; else the event that prevents it.
    func begin(within nanoseconds: UInt64) async -> ChangesEvent? {
        let deadline = now + nanoseconds
        while true {
            let events = step()
            for event in events {
                switch event {
                case .purged, .failed: return event
                case .change, .rollback: collector.withLock { $0.early.append(event) }
                case .end: break
                }
            }
            let machine = collector.withLock { $0.machine }
            let isLate = now >= deadline
            if machine.isBegun || (isLate && machine.canBeginPartly) {
                requestChanges()
                return nil
            }
            guard !isLate, cluster.isServing, !Task.isCancelled else {
                return .failed(ClusterChanges.unserved(machine.missing))
            }
            if events.isEmpty { await wait(until: deadline) }
        }
    }

    /// Waits for the next events, at most for `nanoseconds`; called by one caller at a time.
    ///
    /// - Returns: The events in order; none after a timeout. Nothing follows `purged`, `failed` and
    ///   `end`.
    package func next(within nanoseconds: UInt64) async -> [ChangesEvent] {
        let deadline = now + nanoseconds
        while true {
            let early = collector.withLock { collector in
                defer { collector.early = [] }
                return collector.early
            }
            if !early.isEmpty { return early }
            let isComplete = collector.withLock {
                $0.machine.isComplete(snapshotsMax: ChangesToken.snapshotsMax)
            }
            if isComplete || !cluster.isServing { return [.end] }
            let events = step()
            if !events.isEmpty { return events }
            if Task.isCancelled { return [.end] }
            if let missing = overdue() { return [.failed(ClusterChanges.unserved(missing))] }
            guard now < deadline else { return [] }
            await wait(until: deadline)
        }
    }

    /// Closes all links; idempotent.
    package func close() {
        let waiter = inbox.withLock { inbox in
            inbox.isClosed = true
            inbox.events = []
            defer { inbox.waiter = nil }
            return inbox.waiter
        }
        waiter?.resume()
        observer.withLock { $0 }.map(cluster.removeObserver)
        let links = collector.withLock { collector in
            defer { collector.links = [:] }
            return collector.links
        }
        for link in links.values { link.close() }
        slot.release()
    }

    private static func unserved(_ vBucket: VBucketID?) -> String {
        let what = vBucket.map { "vBucket \($0.number)" } ?? "The bucket"
        return "\(what) is not served at the moment: a node is down or warming up. Retry later."
    }

    /// A vBucket that has lacked its stream for too long, in a feed that has to end.
    private func overdue() -> VBucketID? {
        guard request.feed == .normal else { return nil }
        let now = now
        return collector.withLock { collector in
            guard let missing = collector.machine.missing else {
                collector.missingSince = nil
                return nil
            }
            let since = collector.missingSince ?? now
            collector.missingSince = since
            return now - since > ClusterChanges.missingNanosecondsMax ? missing : nil
        }
    }

    // MARK: Steps

    /// Handles the map, due retries, and one event of a link.
    private func step() -> [ChangesEvent] {
        let (mapChanged, event) = inbox.withLock { inbox in
            defer { inbox.mapChanged = false }
            let event = inbox.events.isEmpty ? nil : inbox.events.removeFirst()
            return (inbox.mapChanged, event)
        }
        if mapChanged, let failure = followMap() { return [failure] }
        var events: [ChangesEvent] = []
        if let event { events = handle(event.event, of: event.link) }
        let now = now
        let orders = collector.withLock { collector in
            if let due = collector.retryAt, due <= now {
                collector.retryAt = nil
                collector.machine.openStreams()
            }
            return collector.machine.removeOrders()
        }
        carryOut(orders)
        return events
    }

    /// Returns the end of the feed if the bucket no longer exists.
    private func followMap() -> ChangesEvent? {
        guard let bucket = cluster.state.bucket(named: bucketName),
            bucket.settings.uuid == bucketUUID
        else { return .failed("The bucket was deleted. Its tokens have no meaning any more.") }
        let owners = bucket.placements.map(\.chain.first)
        collector.withLock { collector in
            collector.machine.follow(owners)
            collector.retryAt = collector.retryAt ?? (collector.machine.hasUnopened ? 0 : nil)
        }
        return nil
    }

    private func handle(_ event: ChangesLink.Event, of link: ChangesLink) -> [ChangesEvent] {
        guard collector.withLock({ $0.links[link.node] === link }) else { return [] }
        switch event {
        case .lost(let reason):
            lose(link, reason)
            return []
        case .message(let bytes):
            let now = now
            let (events, flaw) = collector.withLock { ClusterChanges.handle(bytes, &$0, now) }
            link.release(bytes.count)
            if let flaw {
                link.close()
                lose(link, "it sent an invalid message: \(flaw)")
            }
            return events
        }
    }

    private func lose(_ link: ChangesLink, _ reason: String) {
        cluster.environment.trace.debug(
            "feeds",
            bucket: bucketName,
            "An HTTP feed of bucket \(bucketName) lost its stream to \(link.node): \(reason)."
        )
        let now = now
        collector.withLock { collector in
            collector.links[link.node] = nil
            collector.machine.lose(link.node)
            collector.retryAt = now + ClusterChanges.reconnectNanoseconds
        }
    }

    private func carryOut(_ orders: [ChangesCollection.Order]) {
        var records: [NodeNumber: ByteWriter] = [:]
        func append(_ request: HTTPFeedRequest, _ number: UInt32, to node: NodeNumber) {
            let writer = records[node] ?? ByteWriter()
            records[node] = writer
            request.append(number, to: writer)
        }
        for order in orders {
            switch order {
            case .open(let node, let number, let vBucket, let position):
                append(.open(vBucket, position), number, to: node)
            case .close(let node, let number):
                // Without a link the vBucket is closed already.
                guard collector.withLock({ $0.links[node] != nil }) else { continue }
                append(.close, number, to: node)
            }
        }
        for (node, writer) in records.sorted(by: { $0.key < $1.key }) {
            link(to: node).send(writer.bytes)
        }
    }
}

/// The streams of an HTTP feed to nodes, and the wait of its consumer for their events.
extension ClusterChanges {
    private static var begin: [UInt8] {
        let writer = ByteWriter()
        HTTPFeedRequest.begin.append(0, to: writer)
        return writer.bytes
    }

    /// Lets all nodes send changes.
    func requestChanges() {
        let links = collector.withLock { collector in
            collector.hasBegun = true
            return collector.links
        }
        for link in links.values { link.send(ClusterChanges.begin) }
    }

    /// The link to a node, opened if there is none.
    func link(to node: NodeNumber) -> ChangesLink {
        if let link = collector.withLock({ $0.links[node] }) { return link }
        let link = ChangesLink(to: node) { [weak self] link, event in
            self?.signal { if !$0.isClosed { $0.events.append((link, event)) } }
        }
        let hasBegun = collector.withLock { collector in
            collector.links[node] = link
            return collector.hasBegun
        }
        if hasBegun { link.send(ClusterChanges.begin) }
        let nodeCount = max(1, cluster.state.nodes.count)
        let opening = ChangesOpening(
            bucket: bucketUUID,
            hasValues: request.hasValues,
            snapshotsMax: UInt16(max(2, ClusterChanges.snapshotsMax / nodeCount))
        )
        cluster.streams.open(
            .feeds,
            to: node,
            request: opening.encoded,
            opened: { port in
                link.attach(port)
                return link
            },
            failed: { link.closed($0) }
        )
        return link
    }

    // MARK: Waiting

    /// Changes the inbox and wakes the consumer.
    func signal(_ change: (inout Inbox) -> Void) {
        let waiter = inbox.withLock { inbox in
            change(&inbox)
            inbox.isWoken = true
            defer { inbox.waiter = nil }
            return inbox.waiter
        }
        waiter?.resume()
    }

    func wait(until deadline: UInt64) async {
        let now = now
        let due = min(deadline, collector.withLock { $0.retryAt } ?? deadline)
        guard due > now else { return }
        let timer = lane.post(after: due - now) { [weak self] in self?.signal { _ in } }
        await withUnsafeContinuation { (waiter: UnsafeContinuation<Void, Never>) in
            let isDue = inbox.withLock { inbox in
                guard !inbox.isWoken, !inbox.isClosed else {
                    inbox.isWoken = false
                    return true
                }
                inbox.waiter = waiter
                return false
            }
            if isDue { waiter.resume() }
        }
        inbox.withLock { $0.isWoken = !$0.events.isEmpty || $0.mapChanged }
        timer.cancel()
    }
}
