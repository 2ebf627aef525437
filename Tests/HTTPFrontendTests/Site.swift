import Bytes
import ClusterService
import Credentials
import Foundation
import HTTPFrontend
import LinuxPlatform
import Logging
import OpenSSLPlatform
import Orchestration
import Seams
import Testing
import Vocabulary

/// A node's admin port over real sockets, with documents in memory.
struct Site: Sendable {
    let plane: MemoryPlane
    let service: AdministrationService
    let server: AdminServer
    let world: LinuxEnvironment
    let directory: String

    enum Login: Sendable {
        case none
        case administrator
        case basic(String, String)
        case page(cookie: String)

        var headers: [String] {
            switch self {
            case .none: []
            case .administrator: Login.basic("Administrator", "password").headers
            case .basic(let user, let password):
                ["Authorization: Basic " + Data("\(user):\(password)".utf8).base64EncodedString()]
            case .page(let cookie): ["ns-server-ui: yes", "Cookie: \(cookie)"]
            }
        }
    }

    /// Runs a test with a new site, which is closed even if the test throws.
    ///
    /// `viewsPort` is the port for views that the node announces, without a listener.
    ///
    /// - Throws: The test's error.
    static func with(
        provisioned: Bool = true,
        serving: Bool = true,
        viewsPort: UInt16 = 0,
        views: ViewServer.Services? = nil,
        _ body: (Site) async throws -> Void
    ) async throws {
        let site = try await Site(serving: serving, viewsPort: viewsPort, views: views)
        do {
            if provisioned, serving {
                let cheap = "scramShaIterations=4096"
                let set = try await site.ask("POST /settings/security", .none, form: cheap)
                #expect(set.status == 200)
                let reply = try await site.ask(
                    "POST /clusterInit",
                    .none,
                    form: "username=Administrator&password=password&memoryQuota=1000"
                )
                #expect(reply.status == 200)
                // The leader has the cluster agree on its first secret, which is a change as well.
                for _ in 0..<5_000 where site.service.state.secret.revision == 0 {
                    try await Task.sleep(for: .milliseconds(2))
                }
            }
            try await body(site)
        } catch {
            await site.close()
            throw error
        }
        await site.close()
    }

    private init(
        serving: Bool,
        viewsPort: UInt16,
        views: ViewServer.Services?
    ) async throws {
        world = LinuxEnvironment.make(
            reactors: 1,
            logLevel: .fault,
            security: OpenSSLSecurity()
        )
        plane = MemoryPlane()
        directory = FileManager.default.temporaryDirectory
            .appending(path: "divan-admin-\(UUID().uuidString)").path()
        service = try AdministrationService(
            settings: Cluster.Settings(
                directory: directory,
                memoryQuota: 512 << 20,
                memoryTotal: 16 << 30
            ),
            environment: world.environment,
            dataPlane: plane,
            passwords: PasswordVerifier(secret: [UInt8](repeating: 7, count: 32)),
            probe: AdminClient()
        )
        service.applier.openBuckets()
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        server = try await AdminServer.start(
            service: service,
            views: views,
            host: "127.0.0.1",
            port: 0,
            logger: logger
        )
        if serving {
            let ports = NodePorts(admin: server.port, data: 11_210, peer: 0, views: viewsPort)
            try await service.start(host: "127.0.0.1", ports: ports)
        }
    }

    private func close() async {
        service.beginStop()
        await server.stop()
        service.stop()
        world.stop()
        try? FileManager.default.removeItem(atPath: directory)
    }

    /// Begins to stop the service, which ends streams and long polls.
    func stop() { service.beginStop() }

    /// Stops the service's streams and the server, after which no request is served.
    func stopServer() async {
        service.beginStop()
        await server.stop()
    }

    var port: UInt16 { server.port }

    func request(_ line: String, _ login: Login, headers: [String] = [], body: String = "")
        -> String
    {
        var lines = ["\(line) HTTP/1.1", "Host: 127.0.0.1:\(server.port)"]
        lines += login.headers + headers
        if !body.isEmpty || line.hasPrefix("POST") {
            lines.append("Content-Length: \(body.utf8.count)")
        }
        return lines.joined(separator: "\r\n") + "\r\n\r\n" + body
    }

    /// One request on a connection of its own.
    func ask(
        _ line: String,
        _ login: Login = .administrator,
        headers: [String] = [],
        form: String = "",
        json: String = ""
    ) async throws -> RawClient.Response {
        var headers = headers
        if !form.isEmpty { headers.append("Content-Type: application/x-www-form-urlencoded") }
        let text = request(line, login, headers: headers, body: form + json)
        let port = server.port
        return try await apart {
            let client = try RawClient(port: port)
            try client.send(text)
            return try client.response(toHead: line.hasPrefix("HEAD"))
        }
    }

    var isProvisioned: Bool { service.state.isProvisioned }

    func createBucket(_ name: String, _ more: String = "") async throws {
        let reply = try await ask(
            "POST /pools/default/buckets",
            form: "name=\(name)&ramQuotaMB=100&numVBuckets=64\(more)"
        )
        #expect(reply.status == 202, "\(reply.text)")
    }
}

extension Site {
    /// Stores a document in the bucket `b` directly, not through the admin port.
    func write(_ key: String, _ value: [UInt8]) async {
        _ = await plane.perform(
            .write(value: value, flags: 0, expiry: 0, preservesExpiry: false),
            on: Array(key.utf8),
            inBucket: "b"
        )
    }
}

let notFound = "Requested resource not found.\r\n"
