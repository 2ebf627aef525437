package import ClusterService
package import DataService
internal import Orchestration
package import Seams

/// One node: a data service and a cluster service, connected to each other.
///
/// A start has three steps. `init` claims the data directory and reads the cluster's state. `serve`
/// opens the buckets and listens for clients and other nodes. `announce` publishes the addresses
/// once the admin port is known, which the facade claims. A stop has three steps as well:
/// `beginStop` refuses writes, `persistAll` persists what was acknowledged, `stop` closes the rest.
package final class Node: Sendable {
    package let environment: Environment
    package let settings: NodeSettings
    package let data: DocumentService
    package let administration: AdministrationService
    /// Nil if the node has no port for views.
    package let views: NodeViews?

    /// Claims the data directory and reads the cluster's state.
    ///
    /// - Throws: `NodeError` if the memory quota is invalid, the data directory cannot be claimed,
    ///   or the cluster's state cannot be read.
    package init(
        _ settings: NodeSettings,
        environment: Environment,
        version: String,
        probe: any NodeProbe
    ) throws(NodeError) {
        self.environment = environment
        self.settings = settings
        let total = settings.memoryTotal
        if let quota = settings.memoryQuota,
            let flaw = NodeSettings.flaw(quotaMegabytes: quota >> 20, of: total)
        {
            throw NodeError("The memory quota of \(quota >> 20) MB cannot be used: \(flaw)")
        }
        try Node.claim(settings.directory, environment.disk)
        data = DocumentService(
            environment: environment,
            version: version,
            dataDirectory: settings.directory,
            plainBucketName: settings.memcachedBucket
        )
        var clusterSettings = Cluster.Settings(
            directory: settings.directory,
            memoryQuota: settings.memoryQuota ?? MemoryQuota.bytesDefault(memoryTotal: total),
            memoryTotal: total
        )
        clusterSettings.level = settings.featureLevel
        clusterSettings.hostNames = settings.hostNames
        clusterSettings.unsecuredHost = settings.tls == nil ? settings.host : nil
        if let warning = clusterSettings.unsecuredWarning {
            environment.trace.warning("server", warning)
        }
        if settings.memcachedPort != nil, let bucket = settings.memcachedBucket {
            clusterSettings.memcached = MemcachedListener(bucket: bucket) { [data] isServing in
                data.servePlainClients(isServing)
            }
        }
        clusterSettings.answerChanges = { [data] in data.answerChanges(on: $0, to: $1) }
        var indexes: IndexOpening?
        if settings.viewsPort != nil {
            let opening = IndexOpening(settings, environment, data: data)
            clusterSettings.scripts = ViewSourceCheck(opening: opening)
            clusterSettings.compactViews = { opening.apply($0) }
            clusterSettings.openIndexCount = { opening.openIndexCount }
            indexes = opening
        }
        do throws(ClusterError) {
            administration = try AdministrationService(
                settings: clusterSettings,
                environment: environment,
                dataPlane: DataPlaneAdapter(data: data),
                passwords: data.passwords,
                probe: probe
            )
        } catch {
            throw NodeError(error.description)
        }
        views = indexes.map { [administration] in
            NodeViews($0, administration, environment: environment)
        }
    }

    /// Names of files and directories of which every data directory of Divan has at least one.
    private static let marks: Set<String> = ["control.sqlite", "lock", "buckets"]

    /// Creates the data directory, withholds it from other users, and locks it.
    ///
    /// - Throws: `NodeError` if the directory has other files, is open to other users in a way that
    ///   a mode cannot correct, is in use, or cannot be created.
    private static func claim(_ directory: String, _ disk: any Disk) throws(NodeError) {
        do throws(DiskError) {
            try disk.createDirectory(directory)
            let found = try disk.list(directory)
            guard found.isEmpty || found.contains(where: Node.marks.contains) else {
                throw DiskError(
                    code: .denied,
                    path: directory,
                    description: "\(directory) has files that are not Divan's (\(found[0])): set "
                        + "an empty or new directory with --data"
                )
            }
            guard try disk.lockDirectory(directory) else {
                throw DiskError(
                    code: .denied,
                    path: directory,
                    description: "another divan-server uses the data directory \(directory): "
                        + "stop it, or set another directory with --data"
                )
            }
        } catch {
            throw NodeError(error.description)
        }
    }

    /// Sets from when on commands of clients are logged as slow.
    package func logCommands(slowerThanMilliseconds milliseconds: UInt64) {
        data.slowCommands.thresholdNanoseconds = milliseconds * 1_000_000
    }

    // MARK: Start and stop

    /// The design documents, for the port of views.
    package var designDocuments: DesignDocumentService { administration.designDocuments }

    /// The path of the file with the token that a client on another machine needs for the first change;
    /// nil if the node has a cluster.
    package var initTokenPath: String? { administration.cluster.initToken.path }

    /// Makes a new node a cluster with an administrator, before it listens; does nothing but to log if
    /// the node has a cluster, or was invited by one.
    ///
    /// Call it before `serve`.
    ///
    /// - Throws: `NodeError` if the name or the password is not accepted, or the cluster's state cannot
    ///   be written.
    package func provision(administrator name: String, password: String) async throws(NodeError) {
        if let reason = await administration.settings.provision(
            administrator: name,
            password: password
        ) {
            throw NodeError(reason)
        }
    }

    /// The addresses and ports on which a node listens.
    package struct Addresses: Sendable {
        package let kv: SocketAddress
        /// Nil if there is no TLS.
        package let kvTLS: SocketAddress?
        package let peer: UInt16
        package let memcached: SocketAddress?
    }

    /// Opens the buckets and listens for data clients and other nodes.
    ///
    /// - Throws: `NodeError` if a port cannot be claimed.
    package func serve() throws(NodeError) -> Addresses {
        data.use(administration.cluster.streams)
        views?.start()
        administration.applier.openBuckets()
        data.startHousekeeping()
        do throws(NetworkError) {
            let kv = try data.listen(on: SocketAddress(host: settings.host, port: kvPort))
            let kvTLS = try clientSecurity.map { security throws(NetworkError) in
                try data.listen(
                    on: SocketAddress(host: settings.host, port: kvTLSPort),
                    securedBy: security
                )
            }
            let peer = try administration.listenForPeers(
                on: SocketAddress(host: settings.host, port: peerPort)
            )
            var memcached: SocketAddress?
            if let port = settings.memcachedPort {
                let address = SocketAddress(host: settings.host, port: port)
                memcached = try data.listenPlainly(on: address).address
            }
            return Addresses(
                kv: kv.address,
                kvTLS: kvTLS?.address,
                peer: peer,
                memcached: memcached
            )
        } catch {
            throw NodeError(error.description)
        }
    }

    /// The configured KV port; if that is 0, the port of the previous run, or 0 at the first run.
    private var kvPort: UInt16 {
        settings.kvPort != 0 ? settings.kvPort : remembered?.data ?? 0
    }

    /// The configured admin port; if that is 0, the port of the previous run, or 0 at the first
    /// run.
    package var adminPort: UInt16 {
        settings.adminPort != 0 ? settings.adminPort : remembered?.admin ?? 0
    }

    /// The configured port for views; if that is 0, the port of the previous run, or 0 at the first
    /// run.
    ///
    /// Nil if the node has no views.
    package var viewsPort: UInt16? {
        settings.viewsPort.map { $0 != 0 ? $0 : remembered?.views ?? 0 }
    }

    /// Secures the connections of clients; nil if the node serves no TLS.
    package var clientSecurity: (any ClientSecurity)? {
        settings.tls == nil ? nil : administration.certificates.clientSecurity
    }

    private var kvTLSPort: UInt16 {
        tlsPort(
            settings.tls?.kv,
            beside: (settings.kvPort, 11_210),
            known: 11_207,
            remembered: remembered?.dataTLS
        )
    }

    /// The port of the admin interface over TLS, as `adminPort`.
    package var adminTLSPort: UInt16 {
        tlsPort(
            settings.tls?.admin,
            beside: (settings.adminPort, 8_091),
            known: 18_091,
            remembered: remembered?.adminTLS
        )
    }

    /// The port for views over TLS, as `adminPort`.
    package var viewsTLSPort: UInt16 {
        tlsPort(
            settings.tls?.views,
            beside: (settings.viewsPort ?? 0, 8_092),
            known: 18_092,
            remembered: remembered?.viewsTLS
        )
    }

    /// A port with TLS: the configured one; without one the known one, if the plain port is the known one too;
    /// otherwise the port of the previous run, or any free one.
    private func tlsPort(
        _ configured: UInt16?,
        beside plain: (port: UInt16, known: UInt16),
        known: UInt16,
        remembered: UInt16?
    ) -> UInt16 {
        if configured == nil, plain.port == plain.known { return known }
        let port = configured ?? 0
        return port != 0 ? port : remembered ?? 0
    }

    private var peerPort: UInt16 {
        settings.peerPort != 0 ? settings.peerPort : remembered?.peer ?? 0
    }

    /// The ports of the previous run, from the cluster's state; nil at the first run.
    private var remembered: NodePorts? {
        administration.state.node(number: administration.thisNode)?.ports
    }

    /// The ports of HTTP, which the facades have claimed; nil for those that there are not.
    package struct HTTPPorts: Sendable {
        package let admin: UInt16
        package var adminTLS: UInt16?
        package var views: UInt16?
        package var viewsTLS: UInt16?

        package init(admin: UInt16) {
            self.admin = admin
        }
    }

    /// Publishes this node's addresses in the cluster.
    ///
    /// - Parameters:
    ///   - addresses: The result of `serve`.
    ///   - http: The ports of HTTP.
    /// - Throws: `NodeError` if the cluster service cannot be started.
    package func announce(_ addresses: Addresses, _ http: HTTPPorts) async throws(NodeError) {
        var ports = NodePorts(admin: http.admin, data: addresses.kv.port, peer: addresses.peer)
        ports.dataTLS = addresses.kvTLS?.port ?? 0
        ports.adminTLS = http.adminTLS ?? 0
        ports.views = http.views ?? 0
        ports.viewsTLS = http.viewsTLS ?? 0
        do throws(ClusterError) {
            try await administration.start(host: settings.host, ports: ports)
        } catch {
            throw NodeError(error.description)
        }
    }

    /// Refuses clients' writes and new requests of administrators, and ends their streams.
    ///
    /// Pending requests are still served, because no lane is stopped yet.
    package func beginStop() {
        data.refuseWrites()
        administration.beginStop()
    }

    /// Persists what was acknowledged, while clients still read; the log has the progress each second.
    package func persistAll() async {
        let trace = environment.trace
        let count = data.unpersistedCount
        trace.info("server", "stopping: writes are refused; changes to persist: \(count)")
        await withUnsafeContinuation { waiter in
            data.persistAll(
                progress: { trace.info("server", "stopping: changes left to persist: \($0)") },
                { waiter.resume() }
            )
        }
    }

    /// Ends view queries, indexes and script processes.
    ///
    /// Call it after the port for views is closed, and before the environment ends its children.
    package func stopViews() async {
        data.endFeeds()
        await views?.stop()
    }

    /// Ends administration, persists everything and closes the files.
    ///
    /// Call it after all clients are disconnected.
    package func stop() async {
        await stopViews()
        administration.stop()
        await withUnsafeContinuation { waiter in
            data.stop { waiter.resume() }
        }
        data.stopLanes()
    }
}

/// Reports for a supervisor that the node works, not only that its process exists.
extension Node {
    /// Calls `report` again and again until the node stops, each time after the control lane and then each
    /// reactor has run a job: if one of them stands still, no further report is made.
    package func reportLiveness(
        everyNanoseconds pause: UInt64,
        _ report: @escaping @Sendable () -> Void
    ) {
        let reactors = (0..<environment.lanes.reactorCount).map {
            environment.network.lane(ofReactor: $0)
        }
        administration.cluster.runOnControl(afterNanoseconds: pause) { [weak self] in
            Self.visit(reactors[...]) { [weak self] in
                report()
                self?.reportLiveness(everyNanoseconds: pause, report)
            }
        }
    }

    private static func visit(
        _ lanes: ArraySlice<any Lane>,
        _ done: @escaping @Sendable () -> Void
    ) {
        guard let lane = lanes.first else { return done() }
        lane.post { visit(lanes.dropFirst(), done) }
    }
}
