internal import Bytes
internal import JSON
internal import SyncService
package import SyncWire

extension Gateway {
    /// The route of the gateway itself.
    var rootRoutes: [GatewayRoute] {
        [GatewayRoute([.get], "/") { [self] exchange in welcome(exchange) }]
    }

    var databaseRoutes: [GatewayRoute] {
        [
            GatewayRoute([.get], "/{db}/") { [self] exchange in
                serve(exchange, worksOffline: true) { call in call.describeDatabase() }
            },
            // CouchDB's replicator sends it; a document is as safe before as afterwards.
            route([.post], "/{db}/_ensure_full_commit") { call in
                call.answerObject(201) { writer in
                    writer.member("instance_start_time", call.startMicroseconds)
                    writer.member("ok", true)
                }
            },
        ]
    }

    private func welcome(_ exchange: GatewayExchange) {
        let output = ByteWriter()
        var writer = JSONWriter(output)
        writer.object { writer in
            if exchange.request.port == .administration { writer.member("ADMIN", true) }
            writer.member("couchdb", "Welcome")
            writer.object("vendor") { writer in
                writer.member("name", GatewayVersion.product)
                switch databases.dialect {
                case .first: writer.member("version", 1.4)
                case .third: writer.member("version", "3.2")
                }
            }
            writer.member("version", GatewayVersion.name(in: databases.dialect))
        }
        exchange.answer(json: output)
    }
}

/// The product that clients expect: Couchbase Lite reads names and versions to choose what it asks for.
package enum GatewayVersion {
    static let product = "Couchbase Sync Gateway"

    /// The value of `Server`, and the member `version` of `GET /`.
    package static func name(in dialect: GatewayDialect) -> String {
        switch dialect {
        case .first: "\(product)/1.4.1 Divan"
        case .third: "\(product)/3.2.8 CE Divan"
        }
    }
}

extension RouteCall {
    fileprivate var startMicroseconds: UInt64 { database.startNanoseconds / 1_000 }

    /// Answers `GET /{db}/`; Sync Gateway 1.4 sorts the members.
    fileprivate func describeDatabase() {
        let sequence = database.announcedSequence
        answerObject { writer in
            switch database.dialect {
            case .first:
                writer.member("committed_update_seq", sequence)
                writer.member("compact_running", false)
                writer.member("db_name", database.name)
                writer.member("disk_format_version", 0)
                writer.member("instance_start_time", startMicroseconds)
                writer.member("purge_seq", 0)
                writer.member("state", database.stateName)
                writer.member("update_seq", sequence)
            case .third:
                writer.member("db_name", database.name)
                writer.member("update_seq", sequence)
                writer.member("committed_update_seq", sequence)
                writer.member("instance_start_time", startMicroseconds)
                writer.member("compact_running", false)
                writer.member("purge_seq", 0)
                writer.member("disk_format_version", 0)
                writer.member("state", database.stateName)
            }
        }
    }
}
