package import ClusterService
internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
package import Logging
internal import NIOCore
internal import ServiceLifecycle

/// The admin port: REST for tools and clients, and a page for people.
///
/// It translates between HTTP and `AdministrationService` and decides nothing. It answers 503 until
/// the service was started, so that it may claim its port before the service knows what that is.
package final class AdminServer: Sendable {
    /// The port that was really claimed.
    package let port: UInt16
    private let group: ServiceGroup
    private let task: Task<Void, Never>

    /// How long what is under way may take when the server stops, and how long it then takes at
    /// most to be cut off; together what an operator waits for at most.
    private static let farewell = Duration.milliseconds(1_500)
    private static let cut = Duration.milliseconds(500)

    /// Connections at most; beyond it new ones wait.
    private static let connectionsMax = 8_192
    private static let headerBytesMax = 32 << 10

    private init(port: UInt16, group: ServiceGroup, task: Task<Void, Never>) {
        self.port = port
        self.group = group
        self.task = task
    }

    /// Claims the port and begins to answer.
    ///
    /// - Parameters:
    ///   - service: What answers.
    ///   - host: The address to listen on, in digits or as a name.
    ///   - port: The port; 0 takes any free one.
    ///   - logger: Where the framework tells what happens to it.
    /// - Throws: `AdminServerError` that names the address and what to do.
    /// - Returns: The server, once it listens.
    package static func start(
        service: AdministrationService,
        host: String,
        port: UInt16,
        logger: Logger
    ) async throws(AdminServerError) -> AdminServer {
        let (outcome, begin) = AsyncStream<Result<UInt16, AdminServerError>>.makeStream()
        let application = Application(
            responder: AdminResponder(router: Router(service: service)),
            server: HTTPServerBuilder { responder in
                let channel = HTTP1Channel(
                    responder: responder,
                    configuration: channelConfiguration
                )
                return AdminChannel(channel: channel)
            },
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: Int(port)),
                serverName: "Couchbase Server",
                availableConnectionsDelegate: MaximumAvailableConnections(connectionsMax)
            ),
            onServerRunning: { channel in
                begin.yield(.success(UInt16(channel.localAddress?.port ?? Int(port))))
            },
            logger: logger
        )
        let group = ServiceGroup(configuration: .init(services: [application], logger: logger))
        let task = Task {
            do {
                try await group.run()
            } catch {
                let failure = AdminServerError(error, host: host, port: port)
                // Whoever waits for the beginning is told; later there is only the log.
                if case .terminated = begin.yield(.failure(failure)), !Task.isCancelled {
                    logger.error("\(failure)")
                }
            }
            begin.finish()
        }
        for await result in outcome {
            return AdminServer(port: try result.get(), group: group, task: task)
        }
        throw AdminServerError(CancellationError(), host: host, port: port)
    }

    /// Stops listening, lets what is under way finish, cuts off what does not within two seconds.
    ///
    /// Begin to stop the service first, which ends the streams properly, and stop it after: what
    /// is under way needs it.
    package func stop() async {
        await group.triggerGracefulShutdown()
        let (ends, end) = AsyncStream<Never>.makeStream()
        let waiting = Task { [task] in
            await task.value
            end.finish()
        }
        let patience = Task { [task] in
            try await Task.sleep(for: Self.farewell)
            task.cancel()
            try await Task.sleep(for: Self.cut)
            // Something waits for the world, a full disk for one, and does not hear.
            end.finish()
        }
        for await _ in ends {}
        waiting.cancel()
        patience.cancel()
    }

    private static var channelConfiguration: HTTP1Channel.Configuration {
        HTTP1Channel.Configuration(
            idleTimeout: nil,
            httpDecoderConfiguration: .init(
                maxHeaderFieldSize: headerBytesMax,
                maxHeaderListSize: headerBytesMax,
                maxHeaderFieldCount: 200
            )
        )
    }
}

/// Why the admin port could not be had.
package struct AdminServerError: Error, Sendable, CustomStringConvertible {
    /// A sentence for an operator.
    package let description: String

    init(_ error: any Error, host: String, port: UInt16) {
        let place = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        switch (error as? IOError)?.errnoCode {
        case EADDRINUSE:
            description =
                "The admin port \(place) is in use by another process; --admin-port takes another"
        case EADDRNOTAVAIL:
            description = "This machine does not have the address \(host); --bind takes another"
        case EACCES:
            description = "The admin port \(place) is not allowed to this user; take one over 1023"
        default:
            description = "The admin port \(place) could not be opened: \(error)"
        }
    }
}
