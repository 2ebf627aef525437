import ArgumentParser
import Foundation
import HTTPFrontend
import LinuxPlatform
import Logging
import Seams
import Server
import Vocabulary

/// The program: runs a node and its admin interface until a signal ends it.
@main
struct DivanServer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "divan-server",
        abstract: "A node of Divan, a distributed document store with Couchbase's protocols.",
        discussion: """
            Clients connect to the KV port, administrators to the admin port with a browser or \
            REST. A new node accepts any credentials until it is provisioned (POST /clusterInit, \
            or the console). Prints one line of JSON when it serves; the log is on standard error.
            """,
        version: Release.version
    )

    @OptionGroup var options: ServerOptions

    func run() async throws {
        do {
            if let directory = options.dump { return try Dump.write(directory) }
            try await serve()
        } catch {
            FileHandle.standardError.write(Data("divan-server: \(error)\n".utf8))
            throw ExitCode(1)
        }
    }

    private func serve() async throws {
        let started = ProcessStart.nanoseconds
        let world = LinuxEnvironment.make(
            reactors: options.reactors,
            logLevel: options.logLevel.severity,
            limits: options.limits
        )
        let (stopping, stop) = AsyncStream<Int32>.makeStream()
        let signals = SignalWatch { stop.yield($0) }
        let node = try Node(
            options.settings,
            environment: world.environment,
            version: Release.couchbaseVersion,
            probe: AdminClient()
        )
        let addresses = try node.serve()
        let admin = try await AdminServer.start(
            service: node.cluster,
            host: options.bind,
            port: node.adminPort,
            logger: FrameworkLog.logger(world.environment.trace)
        )
        try await node.announce(addresses, adminPort: admin.port)
        Ready.write(addresses, adminPort: admin.port, startedNanoseconds: started)
        for await _ in stopping { break }
        withExtendedLifetime(signals) {}
        world.environment.trace.info("server", "stopping: persisting all changes")
        node.beginStop()
        await admin.stop()
        world.stop()
        await node.stop()
    }
}
