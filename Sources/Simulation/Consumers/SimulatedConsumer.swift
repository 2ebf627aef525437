internal import Bytes
internal import DivanClient
internal import Seams
internal import SimulatedPlatform
internal import Vocabulary
internal import Wire

/// An outside client of the change protocol (DCP): follows vBuckets of one bucket over real protocol
/// bytes, as the cluster map places them, and keeps what it has when it is disconnected.
///
/// - It requests streams from active copies only, goes back where a rollback is announced, and
///   continues after each end of a stream or connection.
/// - Like clients of real servers it believes a stream until its end is announced, or until its
///   connection is silent for longer than no-ops allow.
/// - What answers and streams violate is reported with the check's name `Consumer`.
final class SimulatedConsumer: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    static let second: UInt64 = 1_000_000_000
    private static let tickNanoseconds = second / 10
    private static let loginNanoseconds = 5 * second

    let bucket: String
    let habits: ConsumerHabits
    let places: [ConsumerPlace]
    let verifier: Verifier
    let cluster: SimulatedCluster
    private let environment: Environment
    private let lane: any Lane
    private let login: Handshake.Login
    private var maps: ClusterMapCache
    private var links: [SocketAddress: ConsumerLink] = [:]
    /// When to connect again to nodes that did not accept.
    private var refusedUntil: [SocketAddress: UInt64] = [:]
    /// The random numbers, times and counts of the consumer.
    var life: ConsumerLife

    init(
        _ bucket: BucketSettings,
        _ habits: ConsumerHabits,
        cluster: SimulatedCluster,
        environment: Environment,
        verifier: Verifier
    ) {
        self.bucket = bucket.name
        self.habits = habits
        self.verifier = verifier
        self.environment = environment
        self.cluster = cluster
        places = habits.vBuckets.map { ConsumerPlace($0, hasValues: habits.hasValues) }
        let name = "\(habits.name) \(bucket.name)"
        lane = environment.lanes.makeLane(name)
        life = ConsumerLife(cluster.world.random(for: name))
        var login = Handshake.Login(
            user: cluster.clientSettings.user,
            password: cluster.clientSettings.password,
            bucket: bucket.name
        )
        if habits.form != .bodies { login.features = Handshake.attributes }
        self.login = login
        maps = ClusterMapCache(bucket: bucket.name)
    }

    var now: UInt64 { cluster.world.now }

    func reportFlaw(_ sentence: String) {
        verifier.reportFlaw("Consumer: \(habits.name) of \(bucket): \(sentence)")
    }

    func note(_ sentence: String) {
        cluster.world.transcript.note("\(habits.name) of \(bucket) \(sentence)")
    }

    // MARK: The client's clock

    func start() {
        lane.post(after: SimulatedConsumer.tickNanoseconds) { [weak self] in
            guard let self else { return }
            tick()
            start()
        }
    }

    private func tick() {
        guard !verifier.hasFatalFlaw else { return }
        act()
        closeSilentLinks()
        for place in places {
            guard case .idle = place.stage, place.retryAt <= now else { continue }
            request(place)
        }
        let isLost = places.contains { place in
            guard case .idle = place.stage else { return false }
            return place.retryAt + SimulatedConsumer.second < now
        }
        if isLost || maps.current == nil { refreshMap() }
    }

    /// Closes connections that neither open nor send a no-op.
    private func closeSilentLinks() {
        let silence = (2 * habits.noopSeconds + 4) * SimulatedConsumer.second
        for link in openLinks {
            let isLate =
                link.isReady
                ? link.isBrisk && link.heardAt + silence < now
                : link.openedAt + SimulatedConsumer.loginNanoseconds < now
            if isLate { link.close() }
        }
    }

    /// Requests the map from all connected nodes, and connects to any node.
    private func refreshMap() {
        guard life.mapAskedAt + SimulatedConsumer.second / 2 <= now else { return }
        life.mapAskedAt = now
        for link in openLinks where link.isReady { link.requestMap() }
        let bootstrap = cluster.clientSettings.bootstrap
        _ = link(to: bootstrap[life.pick(bootstrap.count)])
    }

    // MARK: Connections

    /// All connections, in the order of their addresses.
    var openLinks: [ConsumerLink] {
        links.values.sorted { $0.address.host < $1.address.host }
    }

    /// The connection to a node, which is opened if there is none; nil shortly after a failure.
    private func link(to address: SocketAddress) -> ConsumerLink? {
        if let link = links[address] { return link }
        guard refusedUntil[address] ?? 0 <= now else { return nil }
        let link = ConsumerLink(
            to: address,
            login,
            nonce: environment.entropy.hex(16),
            habits,
            owner: self
        )
        links[address] = link
        link.connect(environment.network)
        return link
    }

    /// Forgets a connection that is closed; its streams continue elsewhere or on the next one.
    func lost(_ link: ConsumerLink) {
        if links[link.address] === link { links[link.address] = nil }
        refusedUntil[link.address] = now + pause
        for place in places where place.link === link { place.rest(until: now + pause) }
    }

    /// A short time before the next attempt.
    var pause: UInt64 { SimulatedConsumer.second / 10 + life.draw(SimulatedConsumer.second / 2) }

    /// Handles a cluster map of a node.
    func sees(_ configuration: ByteView, from link: ConsumerLink) {
        guard !configuration.isEmpty else { return }
        _ = maps.apply(configuration, host: link.address.host)
    }

    // MARK: Requests

    private func request(_ place: ConsumerPlace) {
        guard let map = maps.current, let index = map.node(of: place.id) else {
            place.retryAt = now + pause
            return
        }
        guard let link = link(to: map.nodes[index]), link.isReady else { return }
        // Some streams end at the present.
        let flags: DCPStreamRequest.Flags = life.isCalm || life.pick(6) > 0 ? [] : .toLatest
        let request = place.view.request(flags)
        let opaque = link.send(.stream(place.number, request), of: place.id) { encoder, output in
            encoder.append(request, to: output)
        }
        place.stage = .requested(link, request, opaque: opaque)
    }
}
