internal import Bytes
internal import JSON
internal import SyncService
internal import SyncWire

/// The gateway as a whole, for administrators.
extension Gateway {
    package var serverRoutes: [GatewayRoute] {
        [
            GatewayRoute([.get], "/_ping", on: Set(PortKind.allCases)) { exchange in
                exchange.answer("text/plain; charset=UTF-8", "OK")
            },
            GatewayRoute([.get], "/_all_dbs", on: [.administration]) { [databases] exchange in
                exchange.answer(json: 200) { writer in
                    writer.array { for name in databases.names { $0.value(name) } }
                }
            },
            GatewayRoute([.get], "/_config", on: [.administration]) { [self] exchange in
                exchange.answer(json: 200) { writeConfiguration(to: &$0) }
            },
            GatewayRoute([.get], "/_status", on: [.administration]) { [self] exchange in
                exchange.answer(json: 200) { writeStatus(to: &$0) }
            },
            // Replications of the gateway itself, of which there are none.
            GatewayRoute([.get], "/_active_tasks", on: [.administration]) { exchange in
                exchange.answer(json: 200) { $0.array { _ in } }
            },
            GatewayRoute([.get], "/_logging", on: [.administration]) { [self] exchange in
                exchange.answer(json: 200) { writer in
                    writer.object { writer in
                        for (name, isOn) in logKeys.switches.sorted(by: { $0.key < $1.key }) {
                            writer.member(name, isOn)
                        }
                    }
                }
            },
            GatewayRoute([.put, .post], "/_logging", on: [.administration]) { [self] exchange in
                serveAll(exchange) { [self] () async throws(Refusal) in
                    try await setLogging(exchange)
                }
            },
            GatewayRoute([.get], "/_admin/", on: [.administration]) { exchange in
                exchange.refuse(
                    Refusal(
                        404,
                        "This gateway has no page for administrators; its databases are at /_all_dbs,"
                            + " and a node of Divan has a console on its port 8091"
                    )
                )
            },
        ]
    }

    private func writeConfiguration(to writer: inout JSONWriter) {
        guard let configuration else { return writer.object { _ in } }
        let current = databases.names.compactMap { databases[$0]?.configuration }
        configuration.writeJSON(to: &writer, current)
    }

    private func writeStatus(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.object("databases") { writer in
                for name in databases.names {
                    guard let database = databases[name] else { continue }
                    writer.object(name) { writer in
                        writer.member("seq", database.updateSequence)
                        writer.member("server_uuid", "")
                        writer.member("state", database.stateName)
                        writer.array("require_resync") { _ in }
                        writer.array("replication_status") { _ in }
                    }
                }
            }
            let isFirst = databases.dialect == .first
            writer.member("version", "Couchbase Sync Gateway/\(isFirst ? "1.4.1" : "3.2.8")")
            writer.object("vendor") { writer in
                writer.member("name", "Couchbase Sync Gateway")
                writer.member("version", isFirst ? "1.4" : "3.2")
            }
        }
    }

    /// PUT replaces the keys, POST adds to them; `level` may come alone.
    ///
    /// - Throws: `Refusal` 400.
    private func setLogging(_ exchange: GatewayExchange) async throws(Refusal) {
        let body = try await exchange.body(atMost: SyncLimits.requestBytesMax)
        var keys = logKeys
        if let level = exchange.request.query.integer("level") {
            keys.level = min(max(level, 1), 3)
        }
        if body.count > 0 || keys.level == logKeys.level {
            let members = body.withView { JSONValue.parse($0) }?.members
            let claims = members?.compactMap { member in
                member.value.bool.map { (name: member.name, isOn: $0) }
            }
            guard let members, let claims, claims.count == members.count else {
                throw Refusal(400, "Invalid JSON or non-boolean values")
            }
            if exchange.request.method == "PUT" {
                let level = keys.level
                keys = LogKeys([])
                keys.level = level
            }
            for claim in claims { keys.set(claim.name, claim.isOn) }
        }
        logKeys = keys
        exchange.answer(200)
    }
}
