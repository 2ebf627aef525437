internal import Credentials
internal import NIOCore
internal import ScriptProcesses
internal import Scripting
package import Seams
internal import SyncService
package import SyncWire
internal import Syncing

/// Starts a gateway by its plan, and announces each step in the words of Sync Gateway 1.x.
///
/// Operators and scripts wait for these lines, so their order and form stay.
package struct GatewayStart: Sendable {
    /// The memory of documents without `--memory-quota`.
    static let memoryBytesDefault: UInt64 = 1 << 30

    private let plan: GatewayPlan
    private let version: String
    private let announce: @Sendable (String) -> Void
    /// Of all ports, as in Sync Gateway; nil for clear text.
    private let security: TLSCertificate?

    /// - Parameters:
    ///   - plan: What is started.
    ///   - version: The program's own.
    ///   - announce: Writes a line of the log, with the time.
    /// - Throws: The files of TLS cannot be used.
    package init(
        _ plan: GatewayPlan,
        version: String,
        announce: @escaping @Sendable (String) -> Void
    ) throws(GatewayServerError) {
        self.plan = plan
        self.version = version
        self.announce = announce
        let listeners = plan.configuration.listeners
        if let certificate = listeners.certificatePath, let key = listeners.keyPath {
            security = try TLSCertificate(certificate: certificate, key: key)
        } else {
            security = nil
        }
    }

    /// Announces the program, and what has no effect.
    package func announceProgram(processors: Int) {
        for keys in plan.logKeyLists {
            announce("Enabling logging: [\(keys.joined(separator: " "))]")
        }
        announce("==== Divan Sync Gateway/\(version) ====")
        announce("Configured Divan to use all \(processors) CPUs")
        for notice in plan.notices { announce("WARNING: \(notice)") }
    }

    /// Makes the gateway, and opens its databases.
    ///
    /// - Parameters:
    ///   - environment: Its children are the script processes.
    ///   - memoryBytes: The memory of documents; nil for the default.
    ///   - processors: How many the machine has.
    ///   - allowsUnfiltered: Whether functions run if the kernel does not filter their system calls.
    /// - Returns: The gateway, which does not listen yet.
    /// - Throws: Why a database cannot be opened, and the remedy.
    package func run(
        _ environment: Environment,
        memoryBytes: UInt64?,
        processors: Int,
        allowsUnfiltered: Bool
    ) throws -> RunningGateway {
        let lane = EventLoopLane("gateway")
        let scripts = ScriptPool(
            environment,
            lane: lane,
            category: "sync",
            limits: ScriptScheduleLimits(processors: processors),
            allowsUnfiltered: allowsUnfiltered
        )
        let passwordLane = environment.lanes.makeLane("passwords", isPatient: true)
        let secret = environment.entropy.bytes(32)
        let tools = GatewayDatabases.Tools(
            scripts: scripts,
            passwords: PasswordVerifier(secret: secret) { work in passwordLane.post(work) },
            passwordLane: passwordLane
        )
        let databases = GatewayDatabases(
            plan.configuration.dialect,
            memoryBytesMax: Int(clamping: memoryBytes ?? Self.memoryBytesDefault),
            tools: tools,
            environment: environment,
            on: lane
        )
        // Later, within the confinement, no file can be read.
        databases.readLibrary()
        let gateway = Gateway(databases)
        gateway.configuration = plan.configuration
        gateway.logKeys = plan.logKeys
        gateway.isSecure = security != nil
        gateway.heartbeatMillisecondsMax = plan.configuration.http.heartbeatSecondsMax * 1_000
        gateway.crossOrigin = plan.configuration.cors
        let server = try makeServer(lane, gateway, time: environment.time)
        let running = RunningGateway(
            lane: lane,
            server: server,
            databases: databases,
            scripts: scripts,
            passwordLane: passwordLane
        )
        do {
            for database in plan.configuration.databases { try open(database, gateway, on: lane) }
        } catch {
            running.stop()
            throw error
        }
        return running
    }

    private func makeServer(
        _ lane: EventLoopLane,
        _ gateway: Gateway,
        time: any TimeSource
    ) throws -> GatewayServer {
        let http = plan.configuration.http
        var settings = GatewaySettings()
        settings.serverName = GatewayVersion.name(in: plan.configuration.dialect)
        settings.compressesAnswers = http.compressesResponses
        if http.connectionsMax > 0 { settings.connectionsMax = http.connectionsMax }
        let crossOrigin = plan.configuration.cors
        let server = try GatewayServer(lane, settings, time: time) {
            GatewayRouter(gateway.routes, crossOrigin: crossOrigin)
        }
        try lane.run { server.didAnswer = { gateway.statistics.count($0) } }
        return server
    }

    /// - Throws: `StartMistake` with the reason of the refusal.
    private func open(
        _ database: DatabaseConfiguration,
        _ gateway: Gateway,
        on lane: EventLoopLane
    ) throws {
        let (store, server) = (database.store, database.store.server ?? "walrus:")
        announce(
            "Opening db /\(database.name) as bucket \"\(store.bucket)\", pool \"\(store.pool)\", "
                + "server <\(server)>"
        )
        announce("Opening \(kind(of: store)) database \(store.bucket) on <\(server)>")
        if database.syncFunction == nil {
            announce(
                "Using default sync function 'channel(doc.channels)' for database "
                    + "\"\(database.name)\""
            )
        }
        let opened = lane.loop.makePromise(of: Void.self)
        gateway.executor.spawn {
            do throws(Refusal) {
                try await gateway.databases.add(database)
                opened.succeed()
            } catch {
                opened.fail(StartMistake("Database \(database.name): \(error.reason)"))
            }
        }
        try opened.futureResult.wait()
        for role in database.principals.roles { announce("    Created role \"\(role.name)\"") }
        for user in database.principals.users {
            let isGuest = user.name == PrincipalConfiguration.guestName
            announce(
                isGuest ? "    Reset guest user to config" : "    Created user \"\(user.name)\""
            )
        }
    }

    private func kind(of store: DatabaseConfiguration.Store) -> String {
        if case .memory = store.kind { "Walrus" } else { "Couchbase" }
    }

    /// Claims the ports and serves them.
    ///
    /// - Throws: An address cannot be used.
    package func listen(_ gateway: RunningGateway) throws(GatewayServerError) {
        let server = gateway.server
        let listeners = plan.listeners
        announce("Starting admin server on \(listeners.adminAddress)")
        try listen(server, .administration, at: listeners.adminAddress)
        announceChanges()
        if let metrics = listeners.metricsAddress {
            announce("Starting metrics server on \(metrics)")
            try listen(server, .metrics, at: metrics)
        }
        announce("Starting server on \(listeners.publicAddress) ...")
        try listen(server, .publicPort, at: listeners.publicAddress)
    }

    /// Announces the principals that were written, as a listener of changes sees them.
    ///
    /// Each is two changes to Sync Gateway: the principal and its sequence.
    private func announceChanges() {
        guard plan.logKeys.contains("Changes+") else { return }
        for database in plan.configuration.databases {
            let principals = database.principals
            let names =
                principals.roles.map { "_sync:role:\($0.name)" }
                + principals.users.map { user in
                    let isGuest = user.name == PrincipalConfiguration.guestName
                    return "_sync:user:\(isGuest ? "" : user.name)"
                }
            for (place, name) in names.enumerated() {
                announce(
                    "Changes+: Notifying that \"\(database.store.bucket)\" changed "
                        + "(keys=\"{\(name)}\") count=\(2 * (place + 1))"
                )
            }
        }
    }

    private func listen(
        _ server: GatewayServer,
        _ kind: PortKind,
        at address: ListenAddress
    ) throws(GatewayServerError) {
        let port = Int(address.port)
        do {
            // All addresses: IPv6, which includes those of IPv4.
            let host = address.host.isEmpty ? "::" : address.host
            try server.listen(GatewayListener(kind, host: host, port: port, security: security))
        } catch {
            // A kernel without IPv6.
            guard address.host.isEmpty else { throw error }
            let host = "0.0.0.0"
            try server.listen(GatewayListener(kind, host: host, port: port, security: security))
        }
    }
}

/// A gateway with its threads and script processes, until it is stopped.
package struct RunningGateway: Sendable {
    let lane: EventLoopLane
    let server: GatewayServer
    let databases: GatewayDatabases
    let scripts: ScriptPool
    let passwordLane: any Lane

    /// Closes listeners and connections, and ends the script processes, before the process ends; not called on its
    /// lane.
    package func stop() {
        server.stop()
        lane.post { [databases] in databases.stop() }
        scripts.stop()
        lane.end()
        passwordLane.stop()
    }
}
