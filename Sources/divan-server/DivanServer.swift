import ArgumentParser
import Foundation
import HTTPFrontend
import LinuxPlatform
import Logging
import OpenSSLPlatform
import Seams
import Server
import Vocabulary

/// The entry of the program: replaces the threads of tasks before the first task can suspend.
@main
enum Program {
    static func main() async {
        TaskThreads.start()
        await DivanServer.main()
    }
}

/// The program: runs a node and its admin interface until a signal ends it.
struct DivanServer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "divan-server",
        abstract: "A node of Divan, a distributed document store with Couchbase's protocols.",
        discussion: """
            Clients connect to the KV port, and to the port for views to query these; administrators \
            connect to the admin port with a browser or REST. Until a new node is provisioned (POST /clusterInit, or the \
            console), it accepts changes over loopback, and those with the token of the file init-token in its data directory as \
            password. Prints one line of JSON when it serves; the log is on standard error.
            """,
        version: Release.version
    )

    @OptionGroup var options: ServerOptions
    @OptionGroup var inspection: InspectionOptions

    func run() async throws {
        // First: SQLite creates files with the process's mask.
        PrivateFiles.setProcessMask()
        do {
            guard try !inspection.inspect() else { return }
            try await serve()
        } catch is DumpCommand.Violations {
            throw ExitCode(1)
        } catch {
            FileHandle.standardError.write(Data("divan-server: \(error)\n".utf8))
            throw ExitCode(1)
        }
    }

    private func serve() async throws {
        let started = ProcessStart.nanoseconds
        let notifier = ServiceNotifier.fromEnvironment()
        try OpenSSLSecurity.check()
        let world = LinuxEnvironment.make(
            reactors: options.reactors,
            logLevel: options.log.level.severity,
            logFormat: options.log.format,
            limits: options.limits,
            logBytesMax: options.log.megabytesMax.map { $0 << 20 },
            security: OpenSSLSecurity()
        )
        let (stopping, stop) = AsyncStream<Int32>.makeStream()
        let signals = SignalWatch { stop.yield($0) }
        let node = try Node(
            options.settings,
            environment: world.environment,
            version: Release.couchbaseVersion,
            probe: AdminClient()
        )
        node.logCommands(slowerThanMilliseconds: options.log.slowMilliseconds)
        if let (name, password) = try options.firstAdministrator() {
            try await node.provision(administrator: name, password: password)
        }
        let addresses = try node.serve()
        let logger = FrameworkLog.logger(world.environment.trace)
        let services = viewServices(of: node)
        let admin = try await AdminServer.start(
            service: node.administration,
            views: services,
            host: options.bind,
            port: node.adminPort,
            secured: node.clientSecurity.map { SecuredPort(port: node.adminTLSPort, security: $0) },
            logger: logger
        )
        let views = try await viewServer(of: node, services, beside: admin, logger)
        var ports = Node.HTTPPorts(admin: admin.port)
        ports.adminTLS = admin.securedPort
        ports.views = views?.port
        ports.viewsTLS = views?.securedPort
        try await node.announce(addresses, ports)
        let tokenPath = node.initTokenPath
        ReadyNotice.write(addresses, ports, initToken: tokenPath, startedNanoseconds: started)
        notifier?.notify(.ready)
        if let notifier, let watchdog = notifier.watchdogNanoseconds {
            // Three reports in the time of one: a late one is no reason to end the node.
            node.reportLiveness(everyNanoseconds: watchdog / 3) { notifier.notify(.alive) }
        }
        for await _ in stopping { break }
        withExtendedLifetime(signals) {}
        notifier?.notify(.stopping)
        node.beginStop()
        await node.persistAll()
        async let viewsEnd: Void? = views?.stop()
        async let adminEnd: Void = admin.stop()
        _ = await (viewsEnd, adminEnd)
        await node.stopViews()
        world.stop()
        await node.stop()
    }

    /// The port for views, once it listens; nil if the node has no views.
    private func viewServer(
        of node: Node,
        _ services: ViewServer.Services?,
        beside admin: AdminServer,
        _ logger: Logger
    ) async throws -> ViewServer? {
        guard let services, let port = node.viewsPort else { return nil }
        var settings = ViewServer.Settings(host: options.bind, port: port)
        settings.secured = node.clientSecurity.map {
            SecuredPort(port: node.viewsTLSPort, security: $0)
        }
        return try await ViewServer.start(beside: admin, services, settings, logger: logger)
    }

    /// The services of the node's views for the ports of views and administration; nil if it has none.
    private func viewServices(of node: Node) -> ViewServer.Services? {
        guard let views = node.views else { return nil }
        let queries = IndexQueries(
            node.administration,
            IndexQueries.Node(
                indexes: { views.indexes },
                dependencies: { views.dependencies },
                obstacle: { views.obstacle }
            )
        )
        return ViewServer.Services(
            designDocuments: node.designDocuments,
            queries: queries,
            trials: PoolMapTrials(service: node.administration, scripts: { views.openScripts() }),
            reading: { views.reading }
        )
    }
}
