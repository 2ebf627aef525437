import Bytes
import Credentials
import LinuxPlatform
import Revisions
import ScriptProcesses
import Scripting
import Seams
import SyncService
import SyncWire
import Syncing
import TestSupport
import Testing

/// A database in memory with real script processes, on a lane of its own.
final class SyncWorld: Sendable {
    let database: SyncDatabase
    let store: MemoryStore
    let function: SyncFunction
    let time: ManualTime
    private let pool: ScriptPool
    private let linux = LinuxEnvironment.make(reactors: 1, logLevel: .fault)
    private let lane: any Lane
    private let passwordLane: any Lane
    private let executor: LaneExecutor

    /// - Parameters:
    ///   - sync: The sync function; nil for none.
    ///   - members: Further members of the database's configuration, each with a comma at its end.
    ///   - dialect: That of the database.
    ///   - quota: Bytes of the store.
    /// - Throws: The configuration is invalid.
    init(
        _ sync: String? = nil,
        _ members: String = "",
        dialect: GatewayDialect = .first,
        quota: Int = 64 << 20
    ) throws {
        time = ManualTime()
        var environment = linux.environment
        environment = environment.with(time: time)
        lane = environment.lanes.makeLane("sync")
        passwordLane = environment.lanes.makeLane("passwords")
        executor = LaneExecutor(lane)
        pool = ScriptPool(
            linux.environment,
            lane: lane,
            category: "sync",
            limits: ScriptScheduleLimits(processors: 2)
        )
        let text = "{\(members)\"server\":\"walrus:\"}"
        let (configuration, _) =
            try text.utf8.withContiguousStorageIfAvailable { bytes in
                try DatabaseConfiguration.parse(
                    ByteView(UnsafeRawBufferPointer(bytes)),
                    name: "db",
                    dialect: dialect
                )
            } ?? { preconditionFailure("a text is contiguous") }()
        let source = sync.map { SyncFunction.Source($0) }
        function = SyncFunction(source, of: "db", pool: pool, environment, on: lane)
        store = MemoryStore(
            function,
            SyncDatabase.writeRules(configuration),
            quota: StoreQuota(bytesMax: quota),
            environment: environment,
            on: lane
        )
        let passwordLane = passwordLane
        let passwords = PasswordVerifier(secret: environment.entropy.bytes(16)) { work in
            passwordLane.post(work)
        }
        database = SyncDatabase(
            configuration,
            SyncStores(store),
            passwords: PasswordTools(passwords, lane: passwordLane),
            environment: environment,
            on: lane
        )
    }

    func stop() {
        pool.stop()
        lane.stop()
        passwordLane.stop()
        linux.stop()
    }

    /// Runs a procedure on the database's lane.
    func run<Value: Sendable>(_ body: @escaping @Sendable (SyncDatabase) async -> Value) async
        -> Value
    {
        let database = database
        return await executor.spawn { await body(database) }.value
    }

    // MARK: Documents

    /// Writes a document; `json` may have `_rev`, `_deleted` and `_attachments`.
    func put(
        _ id: String,
        _ json: String,
        as user: String? = nil,
        isEdit: Bool = true
    ) async -> Result<String, Refusal> {
        await put([(id, json)], as: user, isEdit: isEdit)[0]
    }

    func put(
        _ documents: [(String, String)],
        as user: String? = nil,
        isEdit: Bool = true
    ) async -> [Result<String, Refusal>] {
        await run { database in
            let requester = await database.named(user)
            let sent = documents.map { id, json in
                SentDocument(id, SyncWorld.body(json), isEdit: isEdit)
            }
            return await database.write(sent, by: requester).map { $0.map(\.description) }
        }
    }

    func get(_ id: String, _ revision: String? = nil, as user: String? = nil) async -> String {
        await run { database in
            let request = ReadRequest(id, revision)
            switch await database.read([request], for: await database.named(user))[0] {
            case .failure(let refusal): return "\(refusal.status) \(refusal.reason)"
            case .success(let found):
                let output = ByteWriter()
                found.write(to: output)
                return output.view.text
            }
        }
    }

    static func body(_ json: String) -> DocumentBody {
        do {
            return try Array(json.utf8).withUnsafeBytes { try DocumentBody(ByteView($0)) }
        } catch {
            preconditionFailure("the test's document is valid: \(error)")
        }
    }

    // MARK: Users

    func putUser(_ name: String, _ json: String) async -> SyncDatabase.PrincipalOutcome {
        await run { database in
            do {
                let update = try Array(json.utf8).withUnsafeBytes {
                    try PrincipalUpdate(parsing: ByteView($0))
                }
                return await database.change(update, .user, path: name, method: .replace)
            } catch {
                return .refused(Refusal(400, "\(error)"))
            }
        }
    }

    func login(_ name: String, _ password: String) async -> String? {
        await run { database in
            var offer = LoginOffer()
            offer.basic = BasicCredentials(name: name, password: password)
            guard case .accepted(let requester, _) = await database.login(offer) else { return nil }
            return requester.user?.key.name
        }
    }

    // MARK: Feeds

    /// The rows of a normal feed, as `SEQ ID REV-GENERATION FLAGS`.
    func changes(_ query: String = "", as user: String? = nil) async throws -> [String] {
        let feed = try await feed(query, as: user)
        defer { feed.close() }
        return await run { _ in
            var rows: [String] = []
            while let page = try? await feed.next() {
                rows += page.rows.map(SyncWorld.text)
                if page.isAtEnd { break }
            }
            return rows
        }
    }

    func feed(_ query: String, as user: String? = nil) async throws -> ChangesFeed {
        let result: Result<ChangesFeed, Refusal> = await run { database in
            let requester = await database.named(user)
            return Result { () throws(Refusal) in
                let request: ChangesRequest
                do {
                    request = try Array(query.utf8).withUnsafeBytes {
                        try ChangesRequest(query: URLParameters(ByteView($0)))
                    }
                } catch {
                    throw Refusal(400, "\(error)")
                }
                return try ChangesFeed(request, of: database, for: requester)
            }
        }
        return try result.get()
    }

    static func text(_ row: ChangesRow) -> String {
        let generations = row.revisions.map {
            $0.split(separator: "-").first.map(String.init) ?? ""
        }
        let removed = row.removed.isEmpty ? "" : " removed:" + row.removed.joined(separator: ",")
        return "\(row.sequence) \(row.id) \(generations.joined(separator: "+"))"
            + (row.isDeleted ? " deleted" : "") + removed
    }
}

extension SyncDatabase {
    fileprivate func named(_ user: String?) async -> Requester {
        guard let user else { return .administrator }
        guard let requester = await requester(PrincipalKey(.user, user)) else {
            preconditionFailure("the test's user exists")
        }
        return requester
    }
}
