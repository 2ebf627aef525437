package import Seams
package import SyncService
package import SyncWire
internal import Syncing

/// The databases of a gateway, and what every route of one does first: it finds the database and decides who
/// the request is from.
///
/// - All calls are on its lane, that of the connections.
package final class Gateway: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// The login that a route needs on the public port.
    enum Privilege: Sendable {
        /// A user, or the guest if it is enabled.
        case user
        /// Anyone: without a login the requester is the guest, also if it is disabled; on the administration
        /// port too.
        case anyone
        /// Only the administration port has the route, so that no login is checked.
        case administrator
    }

    package let environment: Environment
    package let executor: LaneExecutor
    package let databases: GatewayDatabases
    /// Nil if the gateway has no file.
    package var configuration: GatewayConfiguration?
    /// The subjects that administrators switch on and off; the program decides what it logs for each.
    package var logKeys = LogKeys()
    package let statistics = GatewayStatistics()
    /// The bound of heartbeats from the configuration; 0 for none.
    package var heartbeatMillisecondsMax = 0
    /// Nil if the configuration has none.
    package var crossOrigin: CrossOriginPolicy?
    /// Whether cookies are sent back over TLS only.
    package var isSecure = false

    package init(_ databases: GatewayDatabases) {
        self.databases = databases
        environment = databases.environment
        executor = LaneExecutor(databases.lane, hasActor: false)
    }

    /// All routes, of all ports.
    package var routes: [GatewayRoute] { allDocumentRoutes + changesRoutes + administrationRoutes }

    /// Runs a route that is of no database; what it throws is the answer.
    func serveAll(
        _ exchange: GatewayExchange,
        _ body: @escaping @Sendable () async throws(Refusal) -> Void
    ) {
        executor.spawn {
            do throws(Refusal) {
                try await body()
            } catch {
                exchange.refuse(error)
            }
        }
    }

    /// Runs a route of a database.
    ///
    /// - Parameters:
    ///   - exchange: The request; its path has the parameter `db`.
    ///   - privilege: The login that the route needs.
    ///   - worksOffline: Whether the route answers while the database is offline.
    ///   - body: Answers the request; what it throws is the answer.
    func serve(
        _ exchange: GatewayExchange,
        _ privilege: Privilege = .user,
        worksOffline: Bool = false,
        body: @escaping @Sendable (RouteCall) async throws(Refusal) -> Void
    ) {
        executor.spawn { [self] in
            do throws(Refusal) {
                let database = try database(of: exchange, worksOffline: worksOffline)
                let requester = try await requester(of: exchange, database, privilege)
                let call = RouteCall(
                    exchange,
                    database,
                    requester: requester,
                    environment: environment,
                    executor: executor
                )
                try await body(call)
            } catch {
                exchange.refuse(error)
            }
        }
    }

    /// - Throws: `Refusal` 404 for an unknown database, 503 for one that is not online.
    private func database(
        of exchange: GatewayExchange,
        worksOffline: Bool
    ) throws(Refusal) -> SyncDatabase {
        let name = exchange.parameters["db"]
        guard let database = databases[name] else {
            throw Refusal(404, "no such database \"\(name)\"")
        }
        if !worksOffline, let refusal = database.refusal { throw refusal }
        return database
    }

    /// - Throws: `Refusal` 401, whose answer may invite a login.
    private func requester(
        of exchange: GatewayExchange,
        _ database: SyncDatabase,
        _ privilege: Privilege
    ) async throws(Refusal) -> Requester {
        let isAdministration = exchange.request.port == .administration
        precondition(
            privilege != .administrator || isAdministration,
            "a route without a login is on the administration port only"
        )
        if privilege == .administrator || isAdministration && privilege == .user {
            return .administrator
        }
        switch await database.login(offer(of: exchange.request, database)) {
        case .accepted(let requester, let renewed):
            if let renewed {
                RouteCall.setCookie(renewed, exchange, database: database, isSecure: isSecure)
            }
            return requester
        case .refused(let refusal) where privilege == .anyone && refusal != .invalidLogin:
            if let guest = await database.requester(.guest) { return guest }
            throw refusal.refusal
        case .refused(let refusal):
            if refusal.hasChallenge {
                exchange.headers["WWW-Authenticate"] = LoginRefusal.challenge
            }
            throw refusal.refusal
        }
    }

    private func offer(of request: GatewayRequest, _ database: SyncDatabase) -> LoginOffer {
        var offer = LoginOffer()
        offer.basic = request.header("Authorization").flatMap {
            BasicCredentials(authorization: $0)
        }
        offer.sessionID = RouteCall.sessionID(of: request, database)
        return offer
    }
}

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

    /// A route of the administration port, which a method of the call answers.
    func administrationRoute(
        _ methods: Set<RouteMethod>,
        _ path: String,
        worksOffline: Bool = false,
        _ method: @escaping @Sendable (RouteCall) -> () async throws(Refusal) -> Void
    ) -> GatewayRoute {
        administrationRoute(methods, path, worksOffline: worksOffline) {
            (call) throws(Refusal) in
            try await method(call)()
        }
    }
}

extension GatewayDialect {
    /// The type of JSON that Sync Gateway 1.4 sends without naming one, as Go guesses it.
    var unnamedType: String { self == .first ? Self.plainText : "application/json" }

    static let plainText = "text/plain; charset=utf-8"
}
