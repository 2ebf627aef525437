package import Vocabulary

/// The positions of one HTTP feed in all vBuckets of a bucket, and the streams that it needs from nodes.
///
/// The collector (`ClusterChanges`) reports the map, every message of a node, and lost connections. The
/// machine orders streams to be opened and closed, and decides which changes the consumer gets.
///
/// - Each vBucket has at most one stream. A message of an earlier stream is ignored, so a change is
///   delivered once, whatever the map does.
/// - A stream that ends without a fault of the position is opened again from the position, on the node
///   that then serves the vBucket.
package struct ChangesCollection: Sendable {
    /// When the feed ends.
    package enum Feed: String, Sendable, CaseIterable {
        /// At the seqnos that the vBuckets have when the feed begins.
        case normal
        /// At the first change, if the consumer has all changes up to the beginning of the feed.
        case longpoll
        /// When the consumer disconnects.
        case eventsource
    }

    /// A request to a node.
    package enum Order: Hashable, Sendable {
        case open(NodeNumber, number: UInt32, VBucketID, ChangesPosition)
        case close(NodeNumber, number: UInt32)
    }

    /// The consumer has to discard its changes of a vBucket after a seqno: a failover lost them.
    package struct Rollback: Hashable, Sendable {
        package let vBucket: VBucketID
        package let seqno: Seqno
    }

    private struct Stream {
        let node: NodeNumber
        let number: UInt32
    }

    private struct Place {
        var position: ChangesPosition
        var owner: NodeNumber?
        var stream: Stream?
        /// Where a feed that is not continuous ends; nil until a node has accepted the position.
        var target: Seqno?
        /// The position was rolled back, and no node has accepted it since.
        var isRolledBack = false
        var isFinished = false

        var hasReachedTarget: Bool {
            target.map { position.seqno >= $0 } ?? false
        }
    }

    package let feed: Feed
    /// The number of changes after which the feed ends; nil for no limit.
    package let limit: Int?
    /// Changes and rollbacks that the consumer got.
    package private(set) var delivered = 0
    private var places: [Place]
    private var numbers: [UInt32: Int] = [:]
    private var lastNumber: UInt32 = 0
    private var orders: [Order] = []

    /// - Parameters:
    ///   - positions: The consumer's positions by vBucket number.
    ///   - feed: When the feed ends.
    ///   - limit: The number of changes after which it ends; nil for no limit.
    package init(positions: [ChangesPosition], feed: Feed, limit: Int? = nil) {
        self.feed = feed
        self.limit = limit
        places = positions.map { Place(position: $0) }
    }

    // MARK: State

    /// The consumer's positions by vBucket number.
    package var positions: [ChangesPosition] { places.map(\.position) }

    /// Whether every position was accepted once.
    package var isBegun: Bool { places.allSatisfy { $0.target != nil } }

    /// Whether the feed has a meaning before every position was accepted.
    ///
    /// A position at the newest change has no seqno before that, and a normal feed no end.
    package var canBeginPartly: Bool {
        feed != .normal && !places.contains { $0.position.branch == .latest }
    }

    /// A vBucket without a stream that the feed still needs; nil if there is none.
    package var missing: VBucketID? {
        places.firstIndex { !$0.isFinished && ($0.stream == nil || $0.target == nil) }
            .map { VBucketID(UInt16($0)) }
    }

    /// Whether the consumer has got `limit` changes.
    package var hasReachedLimit: Bool { limit.map { delivered >= $0 } ?? false }

    /// Whether the feed is over.
    ///
    /// - Parameter snapshotsMax: How many vBuckets may be inside a snapshot when a longpoll ends.
    /// - Returns: Whether the consumer has everything that the feed delivers.
    package func isComplete(snapshotsMax: Int) -> Bool {
        if hasReachedLimit { return true }
        switch feed {
        case .eventsource: return false
        case .normal: return places.allSatisfy(\.isFinished)
        case .longpoll:
            return delivered > 0 && places.allSatisfy(\.hasReachedTarget)
                && places.count { $0.position.isInSnapshot } <= snapshotsMax
        }
    }

    /// Whether a vBucket can be opened, so that `openStreams` has an effect.
    package var hasUnopened: Bool {
        places.contains { !$0.isFinished && $0.stream == nil && $0.owner != nil }
    }

    /// Returns the orders since the last call.
    package mutating func removeOrders() -> [Order] {
        defer { orders = [] }
        return orders
    }

    // MARK: The map and connections

    /// Applies the map: closes streams on nodes that no longer serve their vBuckets.
    ///
    /// - Parameter owners: The node that serves each vBucket; nil if none does.
    package mutating func follow(_ owners: [NodeNumber?]) {
        for (place, owner) in owners.enumerated() where place < places.count {
            places[place].owner = owner
            guard let stream = places[place].stream, stream.node != owner else { continue }
            orders.append(.close(stream.node, number: stream.number))
            drop(place)
        }
    }

    /// Opens a stream of each vBucket that needs one and has an owner.
    ///
    /// Positions inside a snapshot come first, so that few snapshots are unfinished at a time.
    package mutating func openStreams() {
        for isInSnapshot in [true, false] {
            for place in places.indices {
                let candidate = places[place]
                guard let owner = candidate.owner, candidate.stream == nil, !candidate.isFinished,
                    candidate.position.isInSnapshot == isInSnapshot
                else { continue }
                lastNumber += 1
                places[place].stream = Stream(node: owner, number: lastNumber)
                numbers[lastNumber] = place
                let id = VBucketID(UInt16(place))
                orders.append(.open(owner, number: lastNumber, id, candidate.position))
            }
        }
    }

    /// The connection to a node was lost, and with it its streams.
    package mutating func lose(_ node: NodeNumber) {
        for place in places.indices where places[place].stream?.node == node { drop(place) }
    }

    private mutating func drop(_ place: Int) {
        if let stream = places[place].stream { numbers[stream.number] = nil }
        places[place].stream = nil
    }

    // MARK: Messages of nodes

    /// A node accepted the position of a stream.
    package mutating func open(_ number: UInt32, as uuid: VBucketUUID, start: Seqno, high: Seqno) {
        guard let place = numbers[number] else { return }
        if places[place].position.branch == .latest {
            places[place].position = ChangesPosition(branch: .none, seqno: start)
        }
        places[place].position.branch = .uuid(uuid)
        places[place].isRolledBack = false
        // A failover may have lost changes that the consumer was to wait for.
        places[place].target = min(places[place].target ?? high, high)
        finishIfReached(place)
    }

    /// A node rejected the position of a stream: the vBucket continues from `seqno`.
    ///
    /// - Returns: The rollback that the consumer has to be notified of; nil if it has no lost change.
    package mutating func rollBack(
        _ number: UInt32,
        to seqno: Seqno,
        of uuid: VBucketUUID
    ) -> Rollback? {
        guard let place = numbers[number] else { return nil }
        drop(place)
        return rollBack(place, to: seqno, of: uuid)
    }

    private mutating func rollBack(
        _ place: Int,
        to seqno: Seqno,
        of uuid: VBucketUUID
    ) -> Rollback? {
        let isLoss = seqno < places[place].position.seqno
        let branch: ChangesPosition.Branch = seqno == .zero ? .none : .uuid(uuid)
        places[place].position = ChangesPosition(branch: branch, seqno: seqno)
        places[place].isRolledBack = true
        guard isLoss else { return nil }
        delivered += 1
        return Rollback(vBucket: VBucketID(UInt16(place)), seqno: seqno)
    }

    /// The outcome of a purge after a position.
    package enum Purge: Hashable, Sendable {
        /// The stream was closed before.
        case ignored
        /// The vBucket restarts from zero.
        case restarted(Rollback?)
        /// The consumer lacks deletions that no longer exist: it has to start over.
        case refused(VBucketID)
    }

    /// Deletions after the position of a stream were purged.
    package mutating func purge(_ number: UInt32) -> Purge {
        guard let place = numbers[number] else { return .ignored }
        drop(place)
        guard places[place].isRolledBack else { return .refused(VBucketID(UInt16(place))) }
        return .restarted(rollBack(place, to: .zero, of: VBucketUUID(0)))
    }

    /// A stream ended, or could not be opened, for a reason that has nothing to do with its position.
    package mutating func end(_ number: UInt32) {
        if let place = numbers[number] { drop(place) }
    }

    package mutating func beginSnapshot(_ number: UInt32, from start: Seqno, to end: Seqno) {
        guard let place = numbers[number] else { return }
        let seqno = places[place].position.seqno
        // The stream continues inside a snapshot whose start is earlier than this one's.
        let first =
            places[place].position.isInSnapshot
            ? min(places[place].position.snapshotStart, start) : min(start, seqno)
        places[place].position.snapshotStart = first
        places[place].position.snapshotEnd = max(end, seqno)
    }

    /// A change of a stream arrived.
    ///
    /// - Returns: The change's vBucket if the consumer gets the change; nil if not.
    package mutating func change(_ number: UInt32, _ seqno: Seqno) -> VBucketID? {
        guard let place = numbers[number], seqno > places[place].position.seqno, !hasReachedLimit
        else { return nil }
        delivered += 1
        advance(place, to: seqno)
        return VBucketID(UInt16(place))
    }

    /// The consumer has everything of a stream through `seqno`.
    package mutating func advance(_ number: UInt32, to seqno: Seqno) {
        guard let place = numbers[number], seqno > places[place].position.seqno else { return }
        advance(place, to: seqno)
    }

    private mutating func advance(_ place: Int, to seqno: Seqno) {
        places[place].position.seqno = seqno
        if seqno >= places[place].position.snapshotEnd {
            places[place].position.snapshotStart = seqno
            places[place].position.snapshotEnd = seqno
        }
        finishIfReached(place)
    }

    private mutating func finishIfReached(_ place: Int) {
        guard feed == .normal, places[place].hasReachedTarget,
            !places[place].position.isInSnapshot
        else { return }
        places[place].isFinished = true
        guard let stream = places[place].stream else { return }
        orders.append(.close(stream.node, number: stream.number))
        drop(place)
    }
}
