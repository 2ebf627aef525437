import ArgumentParser
import Foundation
import HTTPFrontend
import LinuxPlatform
import Seams
import Server

/// The program: arguments, then a node and its admin interface, until a signal says stop.
@main
struct DivanServer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "divan-server",
        abstract: "A node of Divan, a distributed document store that speaks Couchbase.",
        discussion: """
            Clients connect to the KV port, administrators to the admin port with a browser or \
            REST. A new node answers anybody until it is provisioned (POST /clusterInit, or the \
            page). Prints one line of JSON when it serves; the log goes to standard error.
            """,
        version: Version.text
    )

    @OptionGroup var options: ServerOptions

    func run() async throws {
        if let directory = options.dump { return try Dump.print(directory) }
        let started = ProcessStart.monotonicNanoseconds
        let world = LinuxEnvironment.make(
            reactors: options.reactors,
            logLevel: options.logLevel.severity
        )
        let (stopping, stop) = AsyncStream<Int32>.makeStream()
        let signals = SignalWatch { stop.yield($0) }
        defer { withExtendedLifetime(signals) {} }
        do {
            let node = try Node(
                options.settings,
                environment: world.environment,
                version: Version.compatible
            )
            let addresses = try node.serve()
            let admin = try await AdminServer.start(
                node: node,
                host: options.bind,
                port: node.adminPort
            )
            try await node.announce(addresses, adminPort: admin.port)
            Ready.print(addresses, adminPort: admin.port, startedNanoseconds: started)
            for await _ in stopping { break }
            world.environment.trace.info("server", "stopping: what is in memory goes to disk")
            await admin.stop()
            world.stop()
            await node.stop()
        } catch {
            FileHandle.standardError.write(Data("divan-server: \(error)\n".utf8))
            throw ExitCode(1)
        }
    }
}
