internal import Bytes
internal import JSON
internal import Seams
internal import SyncService
internal import SyncWire

/// Runs of the sync function over all documents, for administrators.
extension Gateway {
    package var resyncRoutes: [GatewayRoute] {
        [
            administrationRoute([.get], "_resync", worksOffline: true, RouteCall.answerResync),
            administrationRoute([.post], "_resync", worksOffline: true, RouteCall.resync),
            administrationRoute([.post], "_sync_check", worksOffline: true) {
                [databases] call async throws(Refusal) in
                try await call.check(databases)
            },
        ]
    }
}

extension RouteCall {
    /// In the dialect of 1.4, the answer comes at the end; in that of 3, a resync is started or stopped.
    ///
    /// - Throws: `Refusal` 400 or 503.
    fileprivate func resync() async throws(Refusal) {
        let database = database
        if database.dialect == .first {
            try database.beginResync()
            await database.runResync()
            return answerObject { $0.member("changes", database.resync.changed) }
        }
        switch query["action"] ?? "" {
        case "", "start":
            try database.beginResync()
            executor.spawn { await database.runResync() }
        case "stop": try database.stopResync()
        default: throw Refusal(400, "Unknown parameter for 'action'. Must be start or stop")
        }
        answerResync()
    }

    fileprivate func answerResync() {
        let resync = database.resync
        answerObject { writer in
            writer.member("status", resync.status.rawValue)
            let start = CalendarTime.text(unixNanoseconds: resync.startNanoseconds)
            writer.member("start_time", resync.id.isEmpty ? "0001-01-01T00:00:00Z" : start)
            writer.member("last_error", "")
            writer.member("resync_id", resync.id)
            writer.member("docs_changed", resync.changed)
            writer.member("docs_processed", resync.processed)
        }
    }

    /// Tries a sync function, that of the body or else the database's, on all documents: what a resync would do.
    ///
    /// Nothing is written, and the database stays online.
    ///
    /// - Throws: `Refusal` 400 if the function does not compile.
    fileprivate func check(_ databases: GatewayDatabases) async throws(Refusal) {
        var source = database.configuration.syncFunction
        let body = try await body(atMost: SyncLimits.configurationBytesMax)
        if body.count > 0 {
            try exchange.requireJSONType()
            guard let tree = body.withView({ JSONValue.parse($0) }), tree.members != nil else {
                throw Refusal(RequestRefusal.badJSON)
            }
            source = tree["sync"]?.string ?? source
        }
        let function = try await databases.function(source, of: database.name)
        let exchange = exchange
        let check = await database.check(function) { !exchange.isClosed }
        function.close()
        answerObject { writer in
            writer.member("docs_processed", check.processed)
            Self.write("changed", check.changed, to: &writer)
            Self.write("refused", check.refused, to: &writer)
        }
    }

    private static func write(
        _ name: String,
        _ found: SyncDatabase.SyncCheck.Found,
        to writer: inout JSONWriter
    ) {
        writer.object(name) { writer in
            writer.member("count", found.count)
            writer.array("examples") { writer in
                for example in found.examples {
                    writer.object { writer in
                        writer.member("id", example.id)
                        guard let refusal = example.refusal else { return }
                        writer.member("status", refusal.status)
                        writer.member("reason", refusal.reason)
                    }
                }
            }
        }
    }
}
