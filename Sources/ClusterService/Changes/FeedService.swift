internal import Bytes
internal import Orchestration
internal import Vocabulary
internal import Wire

/// The result of a request for an HTTP feed.
package enum ChangesOutcome: Sendable {
    case opened(ClusterChanges)
    case noBucket
    /// The token is not one of this interface; a sentence.
    case invalid(String)
    /// The token has no meaning any more; a sentence.
    case gone(String)
    /// There are too many feeds; a sentence.
    case tooMany(String)
    /// The bucket or the cluster cannot serve the feed now; a sentence.
    case unavailable(String)
}

/// Where an HTTP feed begins.
package enum ChangesStart: Hashable, Sendable {
    case beginning
    /// At the changes after the request.
    case now
    case token(String)
}

/// The place of one feed among those of the node; given back once.
final class FeedSlot: Sendable {
    private let isHeld = Guarded(true)
    private let free: @Sendable () -> Void

    init(_ free: @escaping @Sendable () -> Void) { self.free = free }

    func release() {
        let wasHeld = isHeld.withLock { isHeld in
            defer { isHeld = false }
            return isHeld
        }
        if wasHeld { free() }
    }

    deinit { release() }
}

/// HTTP feeds of clients, which any node serves for the whole cluster.
package final class FeedService: Sendable {
    let cluster: Cluster
    /// The open HTTP feeds of clients, by the client's login.
    private let feeds = Guarded<[String: Int]>([:])

    init(_ cluster: Cluster) { self.cluster = cluster }

    /// Feeds of a node: each may use the window of `NodeService.feeds` for every node.
    private static var feedsMax: Int { 64 }
    /// Feeds of one login, so that one client cannot use all.
    private static var feedsOfLoginMax: Int { 32 }
    /// How long nodes may take to accept the positions.
    private static var beginNanoseconds: UInt64 { 5_000_000_000 }

    /// Opens an HTTP feed and waits until all nodes have accepted its positions.
    ///
    /// - Parameters:
    ///   - request: What the feed delivers.
    ///   - start: Where it begins.
    ///   - name: The bucket.
    ///   - login: The client's login, whose feeds are bounded.
    /// - Returns: The feed, which the caller has to close, or why there is none.
    package func open(
        _ request: ClusterChanges.Request,
        from start: ChangesStart,
        ofBucket name: String,
        login: String
    ) async -> ChangesOutcome {
        guard let bucket = cluster.state.bucket(named: name) else { return .noBucket }
        if let obstacle = feedObstacle { return .unavailable(obstacle) }
        let token: ChangesToken
        switch startingToken(start, bucket) {
        case .success(let found): token = found
        case .failure(let refusal): return refusal.outcome
        }
        guard let slot = feedSlot(of: login) else {
            return .tooMany(
                "There are too many feeds: a node serves \(Self.feedsMax), and "
                    + "\(Self.feedsOfLoginMax) of one user. Close some, or ask another node."
            )
        }
        let changes = ClusterChanges(request, from: token, ofBucket: name, cluster, slot)
        guard let obstacle = await changes.begin(within: Self.beginNanoseconds) else {
            return .opened(changes)
        }
        changes.close()
        switch obstacle {
        case .purged(let vBucket):
            return .gone(
                "The token is older than the last purge of deletions (vBucket \(vBucket.number)): "
                    + "deletions that you lack no longer exist. Discard your copy and start without "
                    + "a token."
            )
        case .failed(let reason): return .unavailable(reason)
        case .change, .rollback, .end: return .unavailable("The feed ended. Retry later.")
        }
    }

    private struct TokenRefusal: Error {
        let outcome: ChangesOutcome
    }

    private func startingToken(
        _ start: ChangesStart,
        _ bucket: BucketRecord
    ) -> Result<ChangesToken, TokenRefusal> {
        let (uuid, count) = (bucket.settings.uuid, bucket.placements.count)
        switch start {
        case .beginning, .now:
            let position: ChangesPosition = start == .now ? .latest : .start
            let positions = [ChangesPosition](repeating: position, count: count)
            return .success(ChangesToken(bucket: uuid, positions: positions))
        case .token(let text):
            guard let token = ChangesToken(text: text) else {
                let text = "The token is damaged, or not a token of this interface."
                return .failure(TokenRefusal(outcome: .invalid(text)))
            }
            guard token.bucket == uuid, token.positions.count == count else {
                let text =
                    "The token belongs to another bucket, or to a deleted one of the same name. "
                    + "Start without a token."
                return .failure(TokenRefusal(outcome: .gone(text)))
            }
            return .success(token)
        }
    }

    /// Why no feed can be served; nil if feeds can.
    private var feedObstacle: String? {
        cluster.settings.answerChanges == nil ? "This node has no data service." : nil
    }

    private func feedSlot(of login: String) -> FeedSlot? {
        let isFree = feeds.withLock { feeds in
            let all = feeds.values.reduce(0, +)
            guard all < Self.feedsMax, feeds[login, default: 0] < Self.feedsOfLoginMax else {
                return false
            }
            feeds[login, default: 0] += 1
            return true
        }
        guard isFree else { return nil }
        return FeedSlot { [weak self] in
            self?.feeds.withLock { feeds in
                let left = (feeds[login] ?? 1) - 1
                feeds[login] = left > 0 ? left : nil
            }
        }
    }
}
