internal import Bytes
package import Revisions
package import Seams
internal import SyncWire
package import Syncing

/// A database in memory, on one lane: what Sync Gateway's `walrus:` is.
///
/// Nothing of it is on disk, and it ends with the process.
///
/// - Memory is counted in bytes of what is stored, with an estimate of what surrounds it. Beyond the quota
///   writes are refused; deletions are not.
/// - Sequences are drawn without gaps.
package final class MemoryStore: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// Bytes around a document: entries of tables, rows of logs.
    static let documentOverhead = 250
    static let entryOverhead = 100
    /// How long bodies of replaced revisions and contents without a document are kept, as in Sync Gateway.
    static let keptSeconds: UInt64 = 300

    struct Side {
        var document: SideDocument
        var expires: UInt64
    }

    struct Blob {
        let bytes: [UInt8]
        /// The documents that name it.
        var owners = 0
    }

    /// Why something is removed at a time.
    enum Removal {
        case body(RevisionName)
        case blob(String)
    }

    let lane: any Lane
    let time: any TimeSource
    let rules: WriteRules
    let function: SyncFunction
    let quota: Int
    package private(set) var usedBytes = 0

    var records: [[UInt8]: [UInt8]] = [:]
    var expiries: [[UInt8]: UInt64] = [:]
    var kept: [RevisionName: [UInt8]] = [:]
    var blobs: [String: Blob] = [:]
    var sides: [String: Side] = [:]
    var log = ChannelLog()
    var grants = GrantIndex()
    let locks = DocumentLocks()
    /// In order of time, which is in seconds since 1970.
    var removals: [(at: UInt64, what: Removal)] = []
    private var counter = SequenceCounter()
    private var subscriptions = Subscriptions()
    private var wakes: [Subscriptions.SessionID: @Sendable () -> Void] = [:]
    private var isWaking = false
    private var versions: UInt64 = 0

    /// - Parameters:
    ///   - function: The sync function.
    ///   - rules: Of the database's configuration.
    ///   - quota: Bytes that the store may have.
    ///   - environment: Its time.
    ///   - lane: Where all calls come from.
    package init(
        _ function: SyncFunction,
        _ rules: WriteRules,
        quota: Int,
        _ environment: Environment,
        on lane: any Lane
    ) {
        self.function = function
        self.rules = rules
        self.quota = quota
        self.lane = lane
        time = environment.time
    }

    var nowSeconds: UInt64 { time.wallNanoseconds() / 1_000_000_000 }

    // MARK: Memory

    func count(_ bytes: Int) { usedBytes += bytes }

    /// The refusal of a write that needs room; nil if there is some.
    var fullRefusal: Refusal? {
        guard usedBytes > quota else { return nil }
        return Refusal(
            507,
            "The database uses its memory quota of \(quota >> 20) MiB. Delete and purge documents, or"
                + " start the gateway with a larger --memory-quota."
        )
    }

    /// Removes what is due: call it now and then.
    package func removeExpired() {
        let now = nowSeconds
        while let first = removals.first, first.at <= now {
            removals.removeFirst()
            switch first.what {
            case .body(let name):
                if let bytes = kept.removeValue(forKey: name) {
                    count(-bytes.count - MemoryStore.entryOverhead)
                }
            case .blob(let digest):
                guard let blob = blobs[digest], blob.owners == 0 else { continue }
                blobs[digest] = nil
                count(-blob.bytes.count - MemoryStore.entryOverhead)
            }
        }
        for (key, side) in sides where side.expires != 0 && side.expires <= now {
            removeSide(key)
        }
        for (id, expires) in expiries where expires <= now { remove(id) }
    }

    func removeLater(_ what: Removal) {
        removals.append((nowSeconds + MemoryStore.keptSeconds, what))
    }

    // MARK: Sequences and listeners

    /// The next sequence.
    ///
    /// Nothing survives the process, so reserving needs no disk.
    func drawSequence() -> UInt64 {
        while true {
            switch counter.draw() {
            case .sequence(let sequence): return sequence
            case .needsReservation: counter.reserved(through: counter.reservation)
            case .exhausted: preconditionFailure("a database in memory has 2^53 writes at most")
            }
        }
    }

    func nextVersion() -> UInt64 {
        versions += 1
        return versions
    }

    /// Wakes the listeners of topics, behind the work that is posted now.
    func notify(_ topics: some Sequence<Subscriptions.Topic>) {
        subscriptions.notify(topics)
        guard subscriptions.hasReadySessions, !isWaking else { return }
        isWaking = true
        lane.post { [self] in
            isWaking = false
            for session in subscriptions.removeReady() { wakes[session]?() }
        }
    }

    private final class Listener: ChangeListener, @unchecked Sendable {  // tidy:allow belongs to its lane
        private let store: MemoryStore
        private let session: Subscriptions.SessionID
        private var isCancelled = false

        init(_ store: MemoryStore, _ session: Subscriptions.SessionID) {
            self.store = store
            self.session = session
        }

        func listen(to topics: Set<Subscriptions.Topic>) {
            precondition(!isCancelled, "a cancelled listener listens to nothing")
            store.subscriptions.listen(session, to: topics)
        }

        func cancel() {
            guard !isCancelled else { return }
            isCancelled = true
            store.subscriptions.remove(session)
            store.wakes[session] = nil
        }
    }
}

extension MemoryStore: ChannelReads {
    package var newest: UInt64 { log.newest }

    package func page(
        _ request: FeedRequest,
        of scope: FeedScope,
        documents: [[UInt8]]?
    ) async -> FeedPage {
        if let documents {
            return FeedPage(documents: documents, request, of: scope, from: log)
        }
        return FeedPage(request, of: scope, from: log)
    }

    package func ids(from first: [UInt8], atMost count: Int) async -> [[UInt8]] {
        log.ids.ids(from: first, atMost: count)
    }

    package func grants(to key: PrincipalKey) async -> GrantIndex { grants }

    package func listen(
        to topics: Set<Subscriptions.Topic>,
        _ wake: @escaping @Sendable () -> Void
    ) -> any ChangeListener {
        let session = subscriptions.add()
        subscriptions.listen(session, to: topics)
        wakes[session] = wake
        return Listener(self, session)
    }
}
