internal import SyncService
internal import SyncWire

/// Routes of Sync Gateway that this gateway does not serve: the answer 501 says what to use instead.
extension Gateway {
    package var absentRoutes: [GatewayRoute] {
        let forUsers: [(methods: Set<RouteMethod>, path: String, refusal: Refusal)] = [
            ([.get], "/{db}/_design/{ddoc}/_view/{view}", .noViews),
            ([.get], "/{db}/_blipsync", .noBLIP),
        ]
        let forAdministrators: [(methods: Set<RouteMethod>, path: String, refusal: Refusal)] = [
            ([.get], "_view/{view}", .noViews),
            ([.get], "_dump/{view}", .noViews),
            // Replications between gateways.
            ([.get, .post], "_replication/", .noReplications),
            ([.get, .put, .delete], "_replication/{id}", .noReplications),
            ([.get], "_replicationStatus/", .noReplications),
            ([.get, .put], "_replicationStatus/{id}", .noReplications),
        ]
        let replicate = GatewayRoute([.post], "/_replicate", on: [.administration]) {
            $0.refuse(.noReplications)
        }
        return logins + [replicate]
            + forUsers.map { methods, path, refusal in
                route(methods, path) { _ throws(Refusal) in throw refusal }
            }
            + forAdministrators.map { methods, path, refusal in
                administrationRoute(methods, path) { _ throws(Refusal) in throw refusal }
            }
    }

    /// Logins by other services.
    ///
    /// Without a configuration there are no such paths, as in Sync Gateway; only those of OpenID Connect are there
    /// always.
    private var logins: [GatewayRoute] {
        let services = [
            ("_facebook", configuration?.extensions.facebook),
            ("_google", configuration?.extensions.google),
            ("_persona", configuration?.extensions.persona),
        ]
        let configured = services.filter { $0.1 != nil }.map { path, _ in
            GatewayRoute([.post], "/{db}/\(path)") { [self] exchange in
                serve(exchange, .anyone) { _ throws(Refusal) in throw .noLoginService }
            }
        }
        let paths = ["_oidc", "_oidc_callback", "_oidc_refresh", "_oidc_challenge"]
        return configured
            + paths.map { path in
                GatewayRoute([.get], "/{db}/\(path)", servesHead: false) { [self] exchange in
                    serve(exchange, .anyone) { call async throws(Refusal) in
                        guard call.database.configuration.extensions.oidc == nil else {
                            throw .noOpenID
                        }
                        let name = call.database.name
                        throw Refusal(400, "OpenID Connect not configured for database \(name)")
                    }
                }
            } + [
                GatewayRoute([.get, .post], "/{db}/_oidc_testing/{path...}") { [self] exchange in
                    serve(exchange, .anyone) { _ async throws(Refusal) in throw .noOpenID }
                }
            ]
    }
}

extension Refusal {
    fileprivate static let noViews = Refusal(
        501,
        "Views are not served by this gateway; use _all_docs and _changes, or views of a bucket"
    )
    fileprivate static let noLoginService = Refusal(
        501,
        "Logins by Facebook, Google and Persona ended with Sync Gateway 2; an application's server"
            + " verifies the user and makes a session by POST _session on the administration port"
    )
    fileprivate static let noOpenID = Refusal(
        501,
        "OpenID Connect is not served by this gateway; an application's server verifies the token and"
            + " makes a session by POST _session on the administration port"
    )
    fileprivate static let noBLIP = Refusal(
        501,
        "Replication over BLIP (Couchbase Lite 2.0 and later) is not served by this gateway; use"
            + " Couchbase Lite 1.x, PouchDB or another replicator over HTTP"
    )
    fileprivate static let noReplications = Refusal(
        501,
        "This gateway does not replicate with others by itself; use a replicator such as that of"
            + " CouchDB or PouchDB between the two public ports"
    )
}
