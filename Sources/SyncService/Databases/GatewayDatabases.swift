package import Credentials
package import ScriptProcesses
package import Seams
package import SyncWire
internal import Wire

/// The databases of a gateway, in memory: makes, changes and deletes them.
///
/// - All calls come from the lane of the databases.
/// - A sync function that does not compile is refused before anything changes.
package final class GatewayDatabases: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// How often expired sessions, documents and bodies are removed.
    private static let expiryNanoseconds: UInt64 = 60_000_000_000

    private struct Entry {
        let database: SyncDatabase
        let store: MemoryStore

        func close() {
            database.close()
            store.close()
        }
    }

    package let environment: Environment
    package let lane: any Lane
    package let quota: StoreQuota
    /// The dialect of databases whose configuration does not say it.
    package let dialect: GatewayDialect
    /// Whether a database that names no server is in memory, because the gateway's cluster is `walrus:`.
    package var hasMemoryDefault = false
    private let scripts: ScriptPool
    private let passwords: PasswordVerifier
    private let passwordLane: any Lane
    private var entries: [String: Entry] = [:]
    /// Names of databases that are being made.
    private var reserved: Set<String> = []
    private var underscore: ScriptLibrary?
    private var isStopped = false

    /// The machinery that all databases share.
    package struct Tools: Sendable {
        let scripts: ScriptPool
        let passwords: PasswordVerifier
        let passwordLane: any Lane

        /// - Parameters:
        ///   - scripts: Runs sync functions, on the lane of the databases.
        ///   - passwords: Verifies passwords.
        ///   - passwordLane: Where credentials are derived.
        package init(scripts: ScriptPool, passwords: PasswordVerifier, passwordLane: any Lane) {
            self.scripts = scripts
            self.passwords = passwords
            self.passwordLane = passwordLane
        }
    }

    package init(
        _ dialect: GatewayDialect,
        memoryBytesMax: Int,
        tools: Tools,
        environment: Environment,
        on lane: any Lane
    ) {
        self.dialect = dialect
        self.environment = environment
        self.lane = lane
        quota = StoreQuota(bytesMax: memoryBytesMax)
        scripts = tools.scripts
        passwords = tools.passwords
        passwordLane = tools.passwordLane
        removeExpiredLater()
    }

    package subscript(name: String) -> SyncDatabase? { entries[name]?.database }

    /// In their order.
    package var names: [String] { entries.keys.sorted() }

    /// Ends the removal of expired things.
    package func stop() { isStopped = true }

    // MARK: Changes

    /// Makes a database, with the users and roles of its configuration.
    ///
    /// - Throws: `Refusal` 412 if there is one of its name, 400 for a sync function that does not compile
    ///   or a principal that is invalid, 501 for a database that is not in memory, 507 without room.
    @discardableResult
    package func add(_ configuration: DatabaseConfiguration) async throws(Refusal) -> SyncDatabase {
        let name = configuration.name
        guard entries[name] == nil, reserved.insert(name).inserted else {
            throw Refusal(412, "Duplicate database name \"\(name)\"")
        }
        defer { reserved.remove(name) }
        let entry = try await make(configuration)
        entries[name] = entry
        return entry.database
    }

    /// Replaces the configuration of a database; its sync function decides about writes from now on.
    ///
    /// - Throws: `Refusal` as of `add`; 400 for another dialect, which no database changes to.
    package func reconfigure(_ configuration: DatabaseConfiguration) async throws(Refusal) {
        let name = configuration.name
        guard let dialect = entries[name]?.database.dialect else {
            throw Refusal(404, "no such database \"\(name)\"")
        }
        guard dialect == configuration.dialect else {
            throw Refusal(
                400,
                "compatibility: a database keeps its dialect, which is \(dialect.rawValue); make another one"
            )
        }
        try requireMemory(configuration)
        let function = try await function(configuration.syncFunction, of: name)
        guard let entry = entries[name] else {
            function.close()
            throw Refusal(404, "no such database \"\(name)\"")
        }
        entry.database.configuration = configuration
        entry.store.reconfigure(function, SyncDatabase.writeRules(configuration))
        try await entry.database.writeConfiguredPrincipals()
    }

    /// Replaces the store of a database by an empty one.
    ///
    /// - Throws: `Refusal` as of `add`.
    package func flush(_ name: String) async throws(Refusal) {
        guard let configuration = entries[name]?.database.configuration else {
            throw Refusal(404, "no such database \"\(name)\"")
        }
        let entry = try await make(configuration)
        guard let old = entries[name] else {
            entry.close()
            throw Refusal(404, "no such database \"\(name)\"")
        }
        entries[name] = entry
        old.close()
    }

    /// Deletes a database with its documents.
    ///
    /// - Returns: Whether there was one.
    package func remove(_ name: String) -> Bool {
        guard let entry = entries.removeValue(forKey: name) else { return false }
        entry.close()
        return true
    }

    private func make(_ configuration: DatabaseConfiguration) async throws(Refusal) -> Entry {
        try requireMemory(configuration)
        let function = try await function(configuration.syncFunction, of: configuration.name)
        let rules = SyncDatabase.writeRules(configuration)
        let store = MemoryStore(function, rules, quota: quota, environment: environment, on: lane)
        let database = SyncDatabase(
            configuration,
            SyncStores(store),
            passwords: PasswordTools(passwords, lane: passwordLane),
            environment: environment,
            on: lane
        )
        let entry = Entry(database: database, store: store)
        do {
            try await database.writeConfiguredPrincipals()
        } catch {
            entry.close()
            throw error
        }
        return entry
    }

    /// - Throws: `Refusal` 501 for a database in a bucket.
    private func requireMemory(_ configuration: DatabaseConfiguration) throws(Refusal) {
        switch configuration.store.kind {
        case .memory(nil): break
        case .memory(let directory?):
            environment.trace.warning(
                "sync",
                "Database \(configuration.name) is in memory only; nothing is saved to \(directory)."
            )
        case .cluster(nil) where hasMemoryDefault: break
        case .cluster:
            throw Refusal(
                501,
                "server: databases in buckets are not served yet; use \"server\": \"walrus:\""
            )
        }
    }

    // MARK: Sync functions

    /// Makes a sync function of a database.
    ///
    /// - Parameters:
    ///   - source: JavaScript; nil for that of a database without one.
    ///   - database: The name of the database.
    /// - Returns: The function.
    /// - Throws: `Refusal` 400 if the source does not compile, with line and text of the first error; 500 if
    ///   underscore.js is named and not installed.
    package func function(
        _ source: String?,
        of database: String
    ) async throws(Refusal) -> SyncFunction {
        let library = try library(for: source ?? "")
        if let source,
            let flaw = await scripts.flaw(in: source, .sync, forBucket: database, library: library)
        {
            let line = flaw.line > 0 ? "line \(flaw.line): " : ""
            throw Refusal(400, "sync: the function does not compile: \(line)\(flaw.text)")
        }
        return SyncFunction(
            source.map { SyncFunction.Source($0, library: library) },
            of: database,
            pool: scripts,
            environment,
            on: lane
        )
    }

    /// Reads underscore.js if it is installed, so that a database which is made later can have it.
    package func readLibrary() { underscore = try? ScriptLibrary.underscore(on: environment.disk) }

    /// - Throws: `Refusal` 500 if the library cannot be read.
    private func library(for source: String) throws(Refusal) -> ScriptLibrary? {
        guard ScriptLibrary.isNamed(in: source) else { return nil }
        if let underscore { return underscore }
        do {
            let library = try ScriptLibrary.underscore(on: environment.disk)
            underscore = library
            return library
        } catch {
            throw Refusal(500, "sync: \(error.description)")
        }
    }

    // MARK: Memory

    /// The memory and the counts of a database at present.
    package struct Usage: Hashable, Sendable {
        package let name: String
        /// Tombstones among them.
        package let documents: Int
        package let bytes: Int
        /// Requests that follow changes.
        package let feeds: Int
        /// Calls of the sync function since it was made.
        package let calls: Int
        package let failures: Int
    }

    package func usage() -> [Usage] {
        entries.sorted { $0.key < $1.key }.map { name, entry in
            let counts = entry.store.function.counts
            return Usage(
                name: name,
                documents: entry.store.documentCount,
                bytes: entry.store.usedBytes,
                feeds: entry.database.feedCount,
                calls: counts.calls,
                failures: counts.failures
            )
        }
    }

    /// Removes the bodies of replaced revisions of a database; returns how many there were.
    package func compact(_ name: String) -> Int { entries[name]?.store.compact() ?? 0 }

    private func removeExpiredLater() {
        lane.post(after: Self.expiryNanoseconds) { [weak self] in
            guard let self, !isStopped else { return }
            for entry in entries.values { entry.store.removeExpired() }
            removeExpiredLater()
        }
    }
}
