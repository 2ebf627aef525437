internal import SyncService
internal import SyncWire

extension Gateway {
    /// All routes of sessions and administration, on all ports.
    package var administrationRoutes: [GatewayRoute] {
        sessionRoutes + principalRoutes + inspectionRoutes + databaseLifeRoutes + resyncRoutes
            + serverRoutes + statisticsRoutes + absentRoutes
    }

    /// A route of a database that only the administration port has.
    func administrationRoute(
        _ methods: Set<RouteMethod>,
        _ path: String,
        worksOffline: Bool = false,
        body: @escaping @Sendable (RouteCall) async throws(Refusal) -> Void
    ) -> GatewayRoute {
        GatewayRoute(methods, "/{db}/" + path, on: [.administration]) { [self] exchange in
            serve(exchange, .administrator, worksOffline: worksOffline, body: body)
        }
    }
}

extension GatewayDialect {
    /// The type of JSON that Sync Gateway 1.4 sends without naming one, as Go guesses it.
    var unnamedType: String { self == .first ? Self.plainText : "application/json" }

    static let plainText = "text/plain; charset=utf-8"
}
