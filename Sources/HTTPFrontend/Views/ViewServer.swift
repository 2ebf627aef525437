package import Logging
internal import Seams
package import ViewService

/// The view port (8092): design documents and view queries.
///
/// It shares authentication, the bounds of connections and bodies, and the node's state with the
/// admin port; it has its own routes and texts (`ViewTable`).
package final class ViewServer: Sendable {
    /// The services that carry out the port's requests.
    package struct Services: Sendable {
        package let designDocuments: any DesignDocumentPlane
        package let queries: any ViewQueries
        /// Nil: map functions cannot be tried.
        package let trials: (any MapTrialRunner)?
        /// How long a client of the admin port may leave a chunk of a query's answer unread, for the
        /// reason of `Settings.stallTimeout`.
        ///
        /// The admin port itself has no such limit: it has other streams, and large responses.
        package var stallTimeout = Duration.seconds(30)
        /// Reads the newest figures of this node's indexes without waiting; nil while it has no views.
        package let reading: Reading

        package typealias Reading = @Sendable () -> ViewReading?

        package init(
            designDocuments: any DesignDocumentPlane,
            queries: any ViewQueries,
            trials: (any MapTrialRunner)? = nil,
            reading: @escaping Reading = { nil }
        ) {
            self.designDocuments = designDocuments
            self.queries = queries
            self.trials = trials
            self.reading = reading
        }
    }

    /// The address of the port and the patience with its clients.
    package struct Settings: Sendable {
        /// The address to listen on, in digits or as a name.
        package let host: String
        /// The port; 0 claims any free one.
        package let port: UInt16
        /// How long a client may leave a response unread before its connection is closed.
        ///
        /// A query that waits for its client keeps a snapshot of the index, and so its disk space.
        package var stallTimeout = Duration.seconds(30)
        /// The port with TLS; nil for none.
        package var secured: SecuredPort?

        package init(host: String, port: UInt16) {
            self.host = host
            self.port = port
        }
    }

    private let listeners: ListenerPair

    /// The port that was claimed; differs from the requested one if that was 0.
    package var port: UInt16 { listeners.plain.port }
    /// The port with TLS; nil if there is none.
    package var securedPort: UInt16? { listeners.secured?.port }

    private init(listeners: ListenerPair) {
        self.listeners = listeners
    }

    /// Claims the port and begins to serve.
    ///
    /// - Parameters:
    ///   - admin: The node's admin port, which is started first.
    ///   - services: The services that carry out the requests.
    ///   - settings: The address to listen on.
    ///   - logger: The framework's log.
    /// - Throws: `HTTPListenerError` if the port cannot be claimed.
    /// - Returns: The server, once it listens.
    package static func start(
        beside admin: AdminServer,
        _ services: Services,
        _ settings: Settings,
        logger: Logger
    ) async throws(HTTPListenerError) -> ViewServer {
        var port = HTTPListener.Settings(
            host: settings.host,
            port: settings.port,
            name: "view port",
            option: "--views-port",
            secured: settings.secured
        )
        port.channel.reasonPhrases = ViewTable.reasonPhrases
        port.channel.headRefusal = { .failure(400, "bad_request", reason: $0) }
        port.channel.stallTimeout = settings.stallTimeout
        port.channel.usesEventLoops = true
        port.channel.answersPromptly = true
        // Its threads are made now: later the system may refuse them.
        _ = WorkExecutor.shared
        let router = Router(admin.resources, ViewTable(services))
        let listeners = try await ListenerPair.start(router, port, logger: logger)
        return ViewServer(listeners: listeners)
    }

    /// Stops listening and waits at most two seconds for pending requests, then cancels them; the
    /// connection of a response that is cut off closes before the end of its body.
    ///
    /// Call the service's `stop` after: pending requests need the service.
    package func stop() async { await listeners.stop() }
}
