package import Bytes
package import Credentials
internal import Engine
package import Seams
package import Vocabulary

/// The data service of a node: the buckets in service, their users, and the configurations for
/// clients.
///
/// Connections find users in `accounts` at login, and buckets in the registry when they select one.
/// Each has one lock, which no request for a document needs.
package final class DocumentService: Sendable {
    private struct Registry {
        var buckets: [String: OpenBucket] = [:]
        var byUUID: [String: OpenBucket] = [:]
        var configurations: [String: RenderedConfiguration] = [:]
        var global: RenderedConfiguration?
        /// Of all buckets, also of those that are opened later.
        var writeHolds: WriteHolds = []
    }

    private struct Run {
        let boot: UInt64
        let startedNanoseconds: UInt64
    }

    package let environment: Environment
    /// The answer to VERSION.
    package let version: String
    /// The directory of the buckets' directories.
    package let dataDirectory: String
    let plain: PlainListener
    package let hash: KeyHash
    let contexts: [LaneContext]
    let connectionCount = SharedWord.allocated()
    let lanes: DataLanes
    let reclaimer: Reclaimer
    package let alerts = AlertTable()
    /// Serializes the opening, flushing and deletion of buckets.
    let administration = Lock()
    /// Changed only while `administration` is held.
    let leftovers = Guarded(LeftoverDirectories())
    /// By bucket: the number of changes that no other node had and that copies on this node
    /// discarded since the last `removeDiscardedCounts`.
    let discarded = Guarded<[String: UInt64]>([:])
    /// Names of buckets that have moved away from this node.
    let givenUp = Guarded<Set<String>>([])
    package let passwords: PasswordVerifier
    private let run: Run
    package let slowCommands: SlowCommandLog
    let lease = Lease()
    let copyPacer: CopyPacer
    let subscribers = MapSubscribers()
    let membership = Guarded(Membership())
    let accounts = AccountTable()
    let emptyPasswordBox = Guarded<StoredCredentials?>(nil)
    private let registry: Guarded<Registry>
    private let housekeeper = Guarded<Housekeeper?>(nil)

    package init(
        environment: Environment,
        version: String,
        dataDirectory: String,
        plainBucketName: String?
    ) {
        self.environment = environment
        self.version = version
        self.dataDirectory = dataDirectory
        plain = PlainListener(bucketName: plainBucketName)
        hash = KeyHash(seed: environment.entropy.next())
        reclaimer = Reclaimer(quiescence: environment.network.quiescence)
        let pool = ChunkPool()
        let reactors = environment.lanes.reactorCount
        contexts = (0..<reactors).map {
            LaneContext(row: $0, pool: pool, time: environment.time)
        }
        slowCommands = SlowCommandLog(environment.trace)
        let started = environment.time.monotonicNanoseconds()
        lanes = DataLanes(environment: environment, pool: pool, row: reactors)
        let registry = Guarded(Registry())
        self.registry = registry
        copyPacer = CopyPacer(environment, lane: lanes.nonIO.lane) {
            registry.withLock { registry in
                registry.buckets.values.reduce(0) { $0 &+ $1.counters.operations }
            }
        }
        let lane = lanes.passwords
        passwords = PasswordVerifier(secret: environment.entropy.bytes(32)) { lane.post($0) }
        run = Run(boot: environment.entropy.next(), startedNanoseconds: started)
    }

    /// A random number that identifies this run of the process.
    package var boot: UInt64 { run.boot }

    var startedNanoseconds: UInt64 { run.startedNanoseconds }

    // MARK: Buckets

    package func bucket(named name: String) -> OpenBucket? {
        registry.withLock { $0.buckets[name] }
    }

    package func bucket(uuid: String) -> OpenBucket? {
        registry.withLock { $0.byUUID[uuid] }
    }

    package var buckets: [OpenBucket] {
        registry.withLock { registry in
            registry.buckets.values.sorted { $0.name < $1.name }
        }
    }

    /// Adds a bucket to the registry, and retires the bucket of the same name that it replaces.
    func enter(_ bucket: OpenBucket) {
        let before = registry.withLock { registry in
            if !registry.writeHolds.isEmpty { bucket.engine.holdWrites(registry.writeHolds) }
            registry.byUUID[bucket.uuid] = bucket
            return registry.buckets.updateValue(bucket, forKey: bucket.name)
        }
        before?.retire()
    }

    /// Holds the writes of buckets that are opened from now on.
    ///
    /// - Returns: The buckets that are open already; the caller holds their writes.
    func startHolding(_ reason: WriteHolds) -> [OpenBucket] {
        registry.withLock { registry in
            registry.writeHolds.insert(reason)
            return Array(registry.buckets.values)
        }
    }

    /// Why the writes of all buckets are held.
    var writeHolds: WriteHolds { registry.withLock { $0.writeHolds } }

    func remove(_ name: String) -> OpenBucket? {
        let removed = registry.withLock { registry in
            registry.configurations[name] = nil
            let removed = registry.buckets.removeValue(forKey: name)
            if let removed { registry.byUUID[removed.uuid] = nil }
            return removed
        }
        if let removed { links?.forget(bucket: removed.uuid) }
        removed?.retire()
        return removed
    }

    // MARK: For the cluster service

    package func publish(global configuration: RenderedConfiguration) {
        registry.withLock { $0.global = configuration }
        subscribers.wakeAll()
    }

    package func publish(_ configuration: RenderedConfiguration, ofBucket name: String) {
        registry.withLock { $0.configurations[name] = configuration }
        subscribers.wakeAll()
    }

    package var globalConfiguration: RenderedConfiguration? { registry.withLock { $0.global } }

    package func configuration(ofBucket name: String) -> RenderedConfiguration? {
        registry.withLock { $0.configurations[name] }
    }

    // MARK: Listening

    /// Serves Couchbase clients on `address`.
    ///
    /// - Parameters:
    ///   - address: Where to listen.
    ///   - security: Secures the connections; nil for plain ones.
    /// - Throws: `NetworkError` if the address cannot be bound.
    /// - Returns: The listener.
    package func listen(
        on address: SocketAddress,
        securedBy security: (any ClientSecurity)? = nil
    ) throws(NetworkError) -> any Listener {
        let callers: Callers = security.map { .securedClients($0) } ?? .clients
        return try environment.network.listen(on: address, for: callers) { [self] port in
            if security == nil, passwords.rules.hidesPlainPorts, !port.local.isLoopback {
                port.close()
            }
            return Connection(port: port, service: self, isMemcachedListener: false)
        }
    }

    /// Serves plain memcached clients, without login, on an address of this machine only.
    ///
    /// - Throws: `NetworkError` if the address is not a loopback address, or cannot be bound.
    package func listenPlainly(on address: SocketAddress) throws(NetworkError) -> any Listener {
        guard address.isLoopback else {
            throw NetworkError(
                code: .addressNotAvailable,
                description: "The memcached port has no passwords, so it listens on loopback "
                    + "addresses only, not on \(address.host): bind to 127.0.0.1."
            )
        }
        return try environment.network.listen(on: address) { [self] port in
            Connection(port: port, service: self, isMemcachedListener: true)
        }
    }

    /// Starts the periodic work on buckets, once a second until `stop`.
    package func startHousekeeping() {
        let keeper = Housekeeper(service: self)
        housekeeper.withLock { $0 = keeper }
        keeper.start()
    }

    func stopHousekeeping() { housekeeper.withLock { $0 }?.stop() }

    /// Breaks the reference cycle between the buckets and the service.
    ///
    /// The simulator calls it for a process that has died, whose objects would otherwise stay in
    /// memory.
    package func abandon() {
        let (buckets, keeper) = (registry.withLock { $0.buckets }, housekeeper.withLock { $0 })
        registry.withLock { $0 = Registry() }
        housekeeper.withLock { $0 = nil }
        _ = (buckets, keeper)
    }

    package var connections: UInt64 { connectionCount.load() }
}
