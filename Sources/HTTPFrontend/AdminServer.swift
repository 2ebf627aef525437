package import ClusterService
internal import Foundation
internal import Hummingbird
internal import HummingbirdCore
package import Logging
internal import NIOCore
internal import ServiceLifecycle

/// The admin port: REST for tools and clients, and the web console.
///
/// It translates between HTTP and `AdministrationService` and decides nothing. It replies 503 until
/// the service is started, so it can claim its port before the service knows the number.
package final class AdminServer: Sendable {
    /// The port that was claimed; differs from the requested one if that was 0.
    package let port: UInt16
    private let group: ServiceGroup
    private let task: Task<Void, Never>

    /// How long pending requests may take after `stop` begins.
    ///
    /// The sum of this and `cancellationPeriod` bounds how long an operator waits for `stop`.
    private static let gracePeriod = Duration.milliseconds(1_500)
    /// How long `stop` waits for the pending requests after it has cancelled them.
    private static let cancellationPeriod = Duration.milliseconds(500)

    /// The most open connections; further clients wait until one of these is closed.
    private static let connectionsMax = 8_192
    private static let headerBytesMax = 32 << 10

    private init(port: UInt16, group: ServiceGroup, task: Task<Void, Never>) {
        self.port = port
        self.group = group
        self.task = task
    }

    /// Claims the port and begins to serve.
    ///
    /// - Parameters:
    ///   - service: The service that carries out the requests.
    ///   - host: The address to listen on, in digits or as a name.
    ///   - port: The port; 0 claims any free one.
    ///   - logger: The framework's log.
    /// - Throws: `AdminServerError` if the port cannot be claimed; it names the address and a
    ///   remedy.
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
                // Before the port is claimed, `start` throws the error; later it is only logged.
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

    /// Stops listening and waits at most two seconds for pending requests, then cancels them.
    ///
    /// Call the service's `beginStop` first, which ends the streams properly, and its `stop` after:
    /// pending requests need the service.
    package func stop() async {
        await group.triggerGracefulShutdown()
        let (ends, end) = AsyncStream<Never>.makeStream()
        let waiting = Task { [task] in
            await task.value
            end.finish()
        }
        let timeout = Task { [task] in
            try await Task.sleep(for: Self.gracePeriod)
            task.cancel()
            try await Task.sleep(for: Self.cancellationPeriod)
            // A request may ignore cancellation, for example while it waits for a full disk.
            end.finish()
        }
        for await _ in ends {}
        waiting.cancel()
        timeout.cancel()
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

/// The admin port could not be claimed.
package struct AdminServerError: Error, Sendable, CustomStringConvertible {
    /// What happened and the remedy, as a sentence for an operator.
    package let description: String

    init(_ error: any Error, host: String, port: UInt16) {
        let place = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        switch (error as? IOError)?.errnoCode {
        case EADDRINUSE:
            description =
                "The admin port \(place) is in use by another process; --admin-port sets another"
        case EADDRNOTAVAIL:
            description = "This machine does not have the address \(host); --bind sets another"
        case EACCES:
            description = "This user may not use the admin port \(place); choose one above 1023"
        default:
            description = "The admin port \(place) could not be opened: \(error)"
        }
    }
}
