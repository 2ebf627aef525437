package import ClusterService
package import Logging
internal import Seams

/// The admin port: REST for tools and clients, and the web console.
///
/// It translates between HTTP and `AdministrationService` and decides nothing. It replies 503 until
/// the service is started, so it can claim its port before the service knows the number.
package final class AdminServer: Sendable {
    /// The resources that the view port shares with this port.
    let resources: SharedResources
    private let listeners: ListenerPair

    /// The port that was claimed; differs from the requested one if that was 0.
    package var port: UInt16 { listeners.plain.port }
    /// The port with TLS; nil if there is none.
    package var securedPort: UInt16? { listeners.secured?.port }

    private init(resources: SharedResources, listeners: ListenerPair) {
        self.resources = resources
        self.listeners = listeners
    }

    /// Claims the port and begins to serve.
    ///
    /// - Parameters:
    ///   - service: The service that carries out the requests.
    ///   - views: The services of the view port; nil if the node serves no views, so that their
    ///     routes do not exist.
    ///   - host: The address to listen on, in digits or as a name.
    ///   - port: The port; 0 claims any free one.
    ///   - secured: The port with TLS; nil for none.
    ///   - logger: The framework's log.
    /// - Throws: `HTTPListenerError` if the port cannot be claimed; it names the address and a
    ///   remedy.
    /// - Returns: The server, once it listens.
    package static func start(
        service: AdministrationService,
        views: ViewServer.Services? = nil,
        host: String,
        port: UInt16,
        secured: SecuredPort? = nil,
        logger: Logger
    ) async throws(HTTPListenerError) -> AdminServer {
        let resources = SharedResources(service: service)
        let settings = HTTPListener.Settings(
            host: host,
            port: port,
            name: "admin port",
            option: "--admin-port",
            use: .administration,
            secured: secured
        )
        let table = AdminTable(views: views)
        let listeners = try await ListenerPair.start(
            Router(resources, table),
            settings,
            logger: logger
        )
        return AdminServer(resources: resources, listeners: listeners)
    }

    /// Stops listening and waits at most two seconds for pending requests, then cancels them.
    ///
    /// Call the service's `beginStop` first, which ends the streams properly, and its `stop` after:
    /// pending requests need the service.
    package func stop() async { await listeners.stop() }
}
