internal import Credentials
internal import JSON
internal import SyncService
internal import SyncWire

extension Gateway {
    /// The routes of design documents.
    var designRoutes: [GatewayRoute] {
        let path = "/{db}/_design/{ddoc}"
        return [
            route([.get], path) { (call) throws(Refusal) in try call.getDesign() },
            route([.put], path) { (call) throws(Refusal) in
                try call.requireOwnDesign()
                throw Refusal(
                    501,
                    "The gateway stores no design documents"
                )
            },
            route([.delete], path) { (call) throws(Refusal) in
                try call.requireOwnDesign()
                throw .missing
            },
        ]
    }
}

extension RouteCall {
    /// The design document with the filter of feeds by channel.
    private static let gatewayDesign = "sync_gateway"
    /// Names with this prefix are the gateway's.
    private static let gatewayPrefix = "sync_"

    /// - Throws: `Refusal` 403 for the gateway's own design documents, and for users.
    fileprivate func requireOwnDesign() throws(Refusal) {
        if !requester.isAdministrator || parameter("ddoc").hasPrefix(Self.gatewayPrefix) {
            throw Refusal(403, "forbidden")
        }
    }

    /// - Throws: `Refusal` 403 or 404.
    fileprivate func getDesign() throws(Refusal) {
        guard parameter("ddoc") == Self.gatewayDesign else {
            try requireOwnDesign()
            throw .missing
        }
        // CouchDB makes the replication's id of the filter's text, so that it changes with the sync function.
        var filter = "ok"
        if let function = database.configuration.syncFunction {
            let digest = LegacyDigest.sha1(Array(function.utf8)).map(String.init)
            filter = "[\(digest.joined(separator: " "))]"
        }
        answer { writer in
            writer.object { writer in
                writer.object("filters") { $0.member("bychannel", filter) }
            }
        }
    }
}
