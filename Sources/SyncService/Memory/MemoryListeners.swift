internal import Seams
internal import Syncing

/// The listeners that wait for changes of a store in memory.
final class MemoryListeners: @unchecked Sendable {  // tidy:allow belongs to its lane
    private let lane: any Lane
    private var subscriptions = Subscriptions()
    private var wakes: [Subscriptions.SessionID: @Sendable () -> Void] = [:]
    private var isWaking = false
    var accessVersions = AccessVersions()
    /// The page that was read last since a change.
    ///
    /// Many clients of one user, as those without a login are, wake for the same page.
    private var last: (request: FeedRequest, scope: FeedScope, page: FeedPage)?

    init(on lane: any Lane) { self.lane = lane }

    /// Wakes the listeners of topics, behind the work that is posted now.
    func notify(_ topics: [Subscriptions.Topic]) {
        last = nil
        for case .principal(let key) in topics { accessVersions.recordChange(of: key) }
        subscriptions.notify(topics)
        guard subscriptions.hasReadySessions, !isWaking else { return }
        isWaking = true
        lane.post { [self] in
            isWaking = false
            for session in subscriptions.removeReady() { wakes[session]?() }
        }
    }

    /// The page of a feed; `read` reads it if it is not the one that was read last.
    func page(_ request: FeedRequest, of scope: FeedScope, _ read: () -> FeedPage) -> FeedPage {
        if let last, last.request == request, last.scope == scope { return last.page }
        let page = read()
        last = (request, scope, page)
        return page
    }

    func add(
        _ topics: Set<Subscriptions.Topic>,
        _ wake: @escaping @Sendable () -> Void
    ) -> any ChangeListener {
        let session = subscriptions.add()
        subscriptions.listen(session, to: topics)
        wakes[session] = wake
        return Listener(self, session)
    }

    private final class Listener: ChangeListener, @unchecked Sendable {  // tidy:allow its lane
        private let listeners: MemoryListeners
        private let session: Subscriptions.SessionID
        private var isCancelled = false

        init(_ listeners: MemoryListeners, _ session: Subscriptions.SessionID) {
            self.listeners = listeners
            self.session = session
        }

        func listen(to topics: Set<Subscriptions.Topic>) {
            precondition(!isCancelled, "a cancelled listener listens to nothing")
            listeners.subscriptions.listen(session, to: topics)
        }

        func cancel() {
            guard !isCancelled else { return }
            isCancelled = true
            listeners.subscriptions.remove(session)
            listeners.wakes[session] = nil
        }
    }
}
