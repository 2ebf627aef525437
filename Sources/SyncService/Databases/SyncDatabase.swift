internal import Bytes
package import Credentials
package import Revisions
package import Seams
package import SyncWire
internal import Syncing

/// The five ports of one database's store.
package struct SyncStores: Sendable {
    package let writes: any RevisionStore
    package let reads: any RevisionReads
    package let channels: any ChannelReads
    package let blobs: any Blobs
    package let sides: any SideDocumentStore

    package init(
        writes: any RevisionStore,
        reads: any RevisionReads,
        channels: any ChannelReads,
        blobs: any Blobs,
        sides: any SideDocumentStore
    ) {
        self.writes = writes
        self.reads = reads
        self.channels = channels
        self.blobs = blobs
        self.sides = sides
    }

    /// A store that has all ports.
    package init(
        _ store: any RevisionStore & RevisionReads & ChannelReads & Blobs & SideDocumentStore
    ) {
        self.init(writes: store, reads: store, channels: store, blobs: store, sides: store)
    }
}

/// Verifies passwords, and derives what is stored of them on a lane of its own.
package struct PasswordTools: Sendable {
    let verifier: PasswordVerifier
    let lane: any Lane

    package init(_ verifier: PasswordVerifier, lane: any Lane) {
        self.verifier = verifier
        self.lane = lane
    }
}

/// A database of the gateway: what its routes do, whatever its store is.
///
/// - All calls come from its lane.
/// - A request is of a `Requester`, who sees the documents of its channels only.
package final class SyncDatabase: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// Decides whether requests of devices are served.
    package enum State: Hashable, Sendable {
        case online
        case offline
        /// In the words of Sync Gateway's answers: `Resyncing`, `Stopping`.
        case changing(String)
    }

    package internal(set) var configuration: DatabaseConfiguration
    package let stores: SyncStores
    package let environment: Environment
    package let passwords: PasswordVerifier
    /// Where credentials are derived, which takes some hundred milliseconds.
    let passwordLane: any Lane
    let executor: LaneExecutor
    package internal(set) var state = State.online
    package internal(set) var resync = Resync()
    /// Those that are not closed.
    private(set) var feeds: [ObjectIdentifier: ChangesFeed] = [:]
    /// Nanoseconds since 1970 at the start: `instance_start_time`.
    package let startNanoseconds: UInt64
    /// Passwords whose credentials are still being derived.
    var unhashed: [PrincipalKey: [UInt8]] = [:]

    /// - Parameters:
    ///   - configuration: Of the file, or of `PUT /db/`.
    ///   - stores: Where the documents are.
    ///   - passwords: Those of all databases of the gateway.
    ///   - environment: The clocks and the random bits.
    ///   - lane: Where all calls come from.
    package init(
        _ configuration: DatabaseConfiguration,
        _ stores: SyncStores,
        passwords: PasswordTools,
        environment: Environment,
        on lane: any Lane
    ) {
        self.configuration = configuration
        self.stores = stores
        self.passwords = passwords.verifier
        passwordLane = passwords.lane
        self.environment = environment
        executor = LaneExecutor(lane, hasActor: false)
        startNanoseconds = environment.time.wallNanoseconds()
        if configuration.isOffline { state = .offline }
    }

    package var name: String { configuration.name }
    package var dialect: GatewayDialect { configuration.dialect }
    package var updateSequence: UInt64 { stores.channels.newest }
    /// `update_seq` as clients read it: with the sequences that a `_bulk_docs` request was given and has not used.
    package var announcedSequence: UInt64 { max(updateSequence, reservedThrough) }
    private var reservedThrough: UInt64 = 0

    /// Gives a `_bulk_docs` request as many sequences as it has documents, as Sync Gateway does, unless there are
    /// some left.
    ///
    /// Only `announcedSequence` shows it: refused documents use none, and nothing draws from what is left.
    ///
    /// - Parameters:
    ///   - count: The documents of the request.
    ///   - start: The newest sequence at its start.
    package func reserveSequences(_ count: Int, after start: UInt64) {
        if reservedThrough <= start { reservedThrough = start + UInt64(count) }
    }

    var nowSeconds: UInt64 { environment.time.wallNanoseconds() / 1_000_000_000 }

    /// The rules of the database for writes.
    package static func writeRules(_ configuration: DatabaseConfiguration) -> WriteRules {
        WriteRules(
            revsLimit: configuration.revisions.limit,
            allowsConflicts: configuration.revisions.allowsConflicts,
            // A repeated request whose answer was lost succeeds, where Sync Gateway answers 409.
            acceptsRepeatedEdits: true,
            dialect: configuration.dialect,
            md5: LegacyDigest.md5
        )
    }

    // MARK: State

    /// Why requests are refused at present; nil if they are not.
    package var refusal: Refusal? {
        switch state {
        case .online: nil
        case .offline: Refusal(503, "DB is currently under maintenance")
        case .changing(let state): Refusal(503, "DB is \(state) - try again later")
        }
    }

    /// The state in the words of Sync Gateway.
    package var stateName: String {
        switch state {
        case .online: "Online"
        case .offline: "Offline"
        case .changing(let name): name
        }
    }

    /// Refuses requests from now on; feeds end at once.
    package func takeOffline() {
        guard state == .online else { return }
        state = .offline
        interruptFeeds()
    }

    package func takeOnline() {
        if state == .offline { state = .online }
    }

    /// Ends the database for those who still use it.
    func close() {
        state = .changing("Stopping")
        interruptFeeds()
    }

    // MARK: Feeds

    /// The feeds that requests follow at present.
    package var feedCount: Int { feeds.count }

    func add(_ feed: ChangesFeed) { feeds[ObjectIdentifier(feed)] = feed }

    func remove(_ feed: ChangesFeed) { feeds[ObjectIdentifier(feed)] = nil }

    /// Lets feeds notice that they have ended.
    func interruptFeeds() {
        for feed in feeds.values { feed.interrupt() }
    }
}
