internal import Bytes
internal import JSON
internal import Seams
internal import SyncService
internal import SyncWire

/// The life of databases, for administrators: making, configuring, taking offline, deleting.
extension Gateway {
    package var databaseLifeRoutes: [GatewayRoute] {
        [
            GatewayRoute([.put], "/{db}/", on: [.publicPort]) { [databases] exchange in
                let isThere = databases[exchange.parameters["db"]] != nil
                exchange.refuse(isThere ? .databaseExists : .noPublicCreation)
            },
            GatewayRoute([.put], "/{db}/", on: [.administration]) { [self] exchange in
                serveAll(exchange) { [self] () async throws(Refusal) in
                    try await create(exchange)
                }
            },
            administrationRoute([.delete], "", worksOffline: true) {
                [databases] call async throws(Refusal) in
                guard databases.remove(call.database.name) else { throw .missing }
                call.exchange.answer(GatewayDialect.plainText, "{}")
            },
            administrationRoute([.get], "_config", worksOffline: true) {
                call async throws(Refusal) in
                call.answer { call.database.configuration.writeJSON(to: &$0) }
            },
            administrationRoute([.put, .post], "_config", worksOffline: true) {
                [self] call async throws(Refusal) in
                try await configure(call)
            },
            administrationRoute([.post], "_offline", worksOffline: true) {
                call async throws(Refusal) in
                call.database.takeOffline()
                call.exchange.answer(200)
            },
            administrationRoute([.post], "_online", worksOffline: true, RouteCall.takeOnline),
            administrationRoute([.post], "_flush") { [databases] call async throws(Refusal) in
                try await databases.flush(call.database.name)
                call.exchange.answer(200)
            },
            administrationRoute([.get, .post], "_compact") {
                [databases] call async throws(Refusal) in
                let count =
                    call.request.method == "POST" ? databases.compact(call.database.name) : 0
                call.answerCompaction(of: count)
            },
            administrationRoute([.post], "_vacuum") { _ async throws(Refusal) in
                throw Refusal(501, "Vacuum is temporarily out of order")
            },
        ]
    }

    /// Makes a database of the configuration in the body.
    ///
    /// - Throws: `Refusal` 400, 412, 413, 415, 501 or 507.
    private func create(_ exchange: GatewayExchange) async throws(Refusal) {
        let name = exchange.parameters["db"]
        try exchange.requireJSONType()
        let body = try await exchange.body(atMost: SyncLimits.configurationBytesMax)
        guard DatabaseConfiguration.isName(name) else {
            throw Refusal(400, "Illegal database name: \(name)")
        }
        try await databases.add(parse(body, name, dialect: databases.dialect))
        environment.trace.info("sync", "Database \(name) was made by an administrator.")
        exchange.answer(201)
    }

    /// Replaces the configuration by PUT, or some members of it by POST.
    ///
    /// - Throws: `Refusal` 400, 413, 415, 501 or 507.
    private func configure(_ call: RouteCall) async throws(Refusal) {
        try call.exchange.requireJSONType()
        let body = try await call.body(atMost: SyncLimits.configurationBytesMax)
        if call.request.method == "POST" {
            let configuration = call.database.configuration
            guard let joined = body.withView({ configuration.json(changedBy: $0) }) else {
                throw Refusal(RequestRefusal.badJSON)
            }
            body.removeAll()
            body.append(joined)
        }
        let configuration = try parse(body, call.database.name, dialect: call.database.dialect)
        try await databases.reconfigure(configuration)
        // Sync Gateway 3 starts the database again; 1.4 leaves it as it is.
        if call.database.dialect == .third {
            if configuration.isOffline {
                call.database.takeOffline()
            } else {
                call.database.takeOnline()
            }
        }
        call.exchange.answer(201)
    }

    /// - Throws: `Refusal` 400 with the place and the text of the first mistake.
    private func parse(
        _ body: ByteWriter,
        _ name: String,
        dialect: GatewayDialect
    ) throws(Refusal) -> DatabaseConfiguration {
        do {
            let (configuration, notices) = try body.withView {
                (text) throws(ConfigurationMistake) in
                try DatabaseConfiguration.parse(text, name: name, dialect: dialect)
            }
            for notice in notices {
                let what = notice.kind == .unknown ? "is unknown" : "has no effect"
                environment.trace.info("sync", "Database \(name): the key \(notice.path) \(what).")
            }
            return configuration
        } catch {
            // As Sync Gateway, if the text is no JSON object at all.
            throw Refusal(400, error.path.isEmpty ? RequestRefusal.badJSON.reason : error.text)
        }
    }
}

extension RouteCall {
    /// Takes the database online, after the `delay` of the body in seconds.
    ///
    /// - Throws: `Refusal` 503 during a resync.
    fileprivate func takeOnline() async throws(Refusal) {
        if database.state == .changing("Resyncing") {
            throw Refusal(
                503,
                "Database _resync is in progress, this may take some time, try again later"
            )
        }
        let body = try await body()
        let delay = body.withView { JSONValue.parse($0) }?["delay"]?.int ?? 0
        if delay > 0 {
            let database = database
            let nanoseconds = UInt64(min(delay, Int(Int32.max))) * 1_000_000_000
            exchange.lane.post(after: nanoseconds) { database.takeOnline() }
        } else {
            database.takeOnline()
        }
        exchange.answer(200)
    }

    /// A compaction has ended when it is answered, also in the dialect of 3, which has it in the background.
    fileprivate func answerCompaction(of count: Int) {
        answerObject { writer in
            guard database.dialect == .third else { return writer.member("revs", count) }
            writer.member("status", "completed")
            let start = CalendarTime.text(unixNanoseconds: environment.time.wallNanoseconds())
            writer.member("start_time", start)
            writer.member("last_error", "")
            writer.member("docs_purged", count)
        }
    }
}

extension Refusal {
    fileprivate static let databaseExists = Refusal(412, "Database already exists")
    fileprivate static let noPublicCreation =
        Refusal(403, "Creating a DB over the public API is unsupported")
}
