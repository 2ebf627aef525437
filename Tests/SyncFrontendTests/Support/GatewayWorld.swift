import Bytes
import Credentials
import Foundation
import LinuxPlatform
import ScriptProcesses
import Scripting
import Seams
import SyncFrontend
import SyncService
import SyncWire
import Testing

/// A gateway over real sockets, with a database in memory and the routes that a test names.
///
/// - Users of the configuration log in with their passwords, the administrator without one on the other port.
/// - Script processes start only if the database has a sync function.
final class GatewayWorld {
    /// Users jane and joe, and documents that name their channels.
    static let configuration = """
        {"log": ["REST"], "databases": {"db": {"server": "walrus:",
          "users": {
            "GUEST": {"disabled": true, "admin_channels": ["*"]},
            "jane": {"password": "password", "admin_channels": ["public", "jane"]},
            "joe": {"password": "password", "admin_channels": ["public", "joe"]}}}}}
        """

    enum Login {
        case none
        case user(String, String)
        /// The administration port.
        case administrator
        /// The port of metrics.
        case metrics

        static let jane = Login.user("jane", "password")
        static let joe = Login.user("joe", "password")
    }

    /// What changes a gateway before its server starts, on its lane.
    typealias Preparation = @Sendable (Gateway) -> Void

    let lane: EventLoopLane
    let gateway: Gateway
    /// Used on the lane only.
    let database: SyncDatabase
    let publicPort: Int
    let administrationPort: Int
    let metricsPort: Int
    private let server: GatewayServer
    private let scripts: ScriptPool
    private let passwordLane: any Lane
    private let linux: LinuxEnvironment

    /// Runs a test with a gateway, which stops even if the test throws.
    ///
    /// - Parameters:
    ///   - configuration: A file with one database.
    ///   - routes: Those of the gateway; all document routes unless the test needs others.
    ///   - settings: Of the server.
    ///   - prepare: Called before the server starts.
    ///   - body: The test, whose requests block its thread.
    /// - Throws: The test's error.
    static func with(
        _ configuration: String = GatewayWorld.configuration,
        routes: @escaping @Sendable (Gateway) -> [GatewayRoute] = { $0.allDocumentRoutes },
        settings: GatewaySettings = GatewaySettings(),
        prepare: @escaping Preparation = { _ in },
        _ body: (GatewayWorld) async throws -> Void
    ) async throws {
        let world = try await GatewayWorld(configuration, routes, settings, prepare)
        do {
            try await body(world)
        } catch {
            world.stop()
            throw error
        }
        world.stop()
    }

    private init(
        _ text: String,
        _ routes: @escaping @Sendable (Gateway) -> [GatewayRoute],
        _ settings: GatewaySettings,
        _ prepare: @escaping Preparation
    ) async throws {
        linux = LinuxEnvironment.make(reactors: 1, logLevel: .fault)
        let environment = linux.environment
        let file = try Array(text.utf8).withUnsafeBytes { bytes throws(ConfigurationMistake) in
            try GatewayConfiguration(ByteView(bytes))
        }
        let configuration = try #require(file.databases.first)
        let lane = EventLoopLane("gateway")
        let passwordLane = environment.lanes.makeLane("passwords")
        let passwords = PasswordVerifier(secret: [UInt8](repeating: 7, count: 32)) { work in
            passwordLane.post(work)
        }
        passwords.use(PasswordRules(decoySecret: passwords.rules.decoySecret, iterations: 4_096))
        let scripts = ScriptPool(
            environment,
            lane: lane,
            category: "sync",
            limits: ScriptScheduleLimits(processors: 1),
            allowsUnfiltered: true
        )
        let databases = GatewayDatabases(
            file.dialect,
            memoryBytesMax: 256 << 20,
            tools: GatewayDatabases.Tools(
                scripts: scripts,
                passwords: passwords,
                passwordLane: passwordLane
            ),
            environment: environment,
            on: lane
        )
        let gateway = Gateway(databases)
        let made = await gateway.executor.spawn { () async -> Result<SyncDatabase, Refusal> in
            do throws(Refusal) {
                return .success(try await databases.add(configuration))
            } catch {
                return .failure(error)
            }
        }.value
        let database = try made.get()
        let server = try GatewayServer(lane, settings, time: environment.time) {
            gateway.configuration = file
            prepare(gateway)
            return GatewayRouter(routes(gateway), crossOrigin: gateway.crossOrigin)
        }
        try lane.run { server.didAnswer = { gateway.statistics.count($0) } }
        self.server = server
        (self.lane, self.gateway, self.database) = (lane, gateway, database)
        (self.scripts, self.passwordLane) = (scripts, passwordLane)
        publicPort = try server.listen(GatewayListener(.publicPort, host: "127.0.0.1", port: 0))
        administrationPort = try server.listen(
            GatewayListener(.administration, host: "127.0.0.1", port: 0)
        )
        metricsPort = try server.listen(GatewayListener(.metrics, host: "127.0.0.1", port: 0))
    }

    private func stop() {
        server.stop()
        scripts.stop()
        lane.stop()
        passwordLane.stop()
        linux.stop()
    }

    // MARK: Requests

    /// Sends a request and reads its answer; `body` has the type `application/json` unless a header names another.
    func ask(
        _ line: String,
        _ login: Login = .jane,
        headers: [String] = [],
        body: String? = nil
    ) throws -> GatewayClient.Answer {
        try ask(line, login, headers: headers, bytes: body.map { Array($0.utf8) })
    }

    func ask(
        _ line: String,
        _ login: Login = .jane,
        headers: [String] = [],
        bytes: [UInt8]?
    ) throws -> GatewayClient.Answer {
        var lines = headers
        let hasType = headers.contains { $0.lowercased().hasPrefix("content-type:") }
        if bytes != nil, !hasType { lines.append("Content-Type: application/json") }
        var port = publicPort
        switch login {
        case .none: break
        case .administrator: port = administrationPort
        case .metrics: port = metricsPort
        case .user(let name, let password):
            let value = Data("\(name):\(password)".utf8).base64EncodedString()
            lines.append("Authorization: Basic \(value)")
        }
        return try GatewayClient(port: port).ask(line, lines, body: bytes)
    }

    /// Runs a procedure on the gateway's lane.
    func run<Result: Sendable>(_ body: @escaping @Sendable () async -> Result) async -> Result {
        await gateway.executor.spawn(body).value
    }
}
