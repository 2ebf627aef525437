import Bytes
import ClusterService
import Foundation
import HTTPFrontend
import LinuxPlatform
import Logging
import OpenSSLPlatform
import Seams
import Server
import TestSupport
import Testing
import Vocabulary

/// A whole node on this machine with its view port: real sockets, files and script processes.
struct ViewNode: Sendable {
    let world: LinuxEnvironment
    let node: Node
    let admin: AdminServer
    let views: ViewServer
    let directory: String
    let queries: CountedQueries

    /// Runs a test with a new, provisioned node, which has the bucket `b`.
    ///
    /// - Throws: The test's error.
    static func with(_ body: (ViewNode) async throws -> Void) async throws {
        try await withDirectory { directory in
            try await with(directory: directory) { node in
                try await node.provision()
                try await body(node)
            }
        }
    }

    /// Runs a test with the path of a directory that is removed afterwards.
    ///
    /// - Throws: The test's error.
    static func withDirectory(_ body: (String) async throws -> Void) async throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "divan-node-\(UUID().uuidString)").path()
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try await body(directory)
    }

    /// Runs a test with the node of a directory.
    ///
    /// Without the program of functions the node coordinates queries as another node would, which has
    /// the program.
    ///
    /// - Throws: The test's error.
    static func with(
        directory: String,
        hasProgram: Bool = true,
        _ body: (ViewNode) async throws -> Void
    ) async throws {
        let node = try await ViewNode(directory: directory, hasProgram: hasProgram)
        do {
            try await body(node)
        } catch {
            await node.stop()
            throw error
        }
        await node.stop()
    }

    private init(directory: String, hasProgram: Bool) async throws {
        self.directory = directory
        world = LinuxEnvironment.make(
            reactors: 2,
            logLevel: .fault,
            security: OpenSSLSecurity()
        )
        var settings = NodeSettings(memoryTotal: 16 << 30)
        settings.directory = directory
        settings.kvPort = 0
        settings.adminPort = 0
        settings.viewsPort = 0
        settings.memoryQuota = 512 << 20
        let own = world.environment
        let environment = own.with(children: hasProgram ? own.children : NoChildren())
        let node = try Node(
            settings,
            environment: environment,
            version: Release.couchbaseVersion,
            probe: AdminClient()
        )
        self.node = node
        let addresses = try node.serve()
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        queries = CountedQueries(
            IndexQueries(
                node.administration,
                IndexQueries.Node(
                    indexes: { node.views?.indexes },
                    dependencies: { node.views?.dependencies },
                    obstacle: { hasProgram ? node.views?.obstacle : nil }
                )
            )
        )
        let services = ViewServer.Services(
            designDocuments: node.administration.designDocuments,
            queries: queries,
            trials: PoolMapTrials(
                service: node.administration,
                scripts: { node.views?.openScripts() }
            ),
            reading: { node.views?.reading }
        )
        admin = try await AdminServer.start(
            service: node.administration,
            views: services,
            host: "127.0.0.1",
            port: node.adminPort,
            logger: logger
        )
        views = try await ViewServer.start(
            beside: admin,
            services,
            ViewServer.Settings(host: "127.0.0.1", port: try #require(node.viewsPort)),
            logger: logger
        )
        var ports = Node.HTTPPorts(admin: admin.port)
        ports.views = views.port
        try await node.announce(addresses, ports)
    }

    /// Makes the node a cluster with the bucket `b`.
    func provision() async throws {
        let cheap = "scramShaIterations=4096"
        let set = try await ask(admin.port, "POST /settings/security", form: cheap)
        #expect(set.status == 200, "\(set.text)")
        let provisioned = try await ask(
            admin.port,
            "POST /clusterInit",
            form: "username=Administrator&password=password&memoryQuota=512"
        )
        #expect(provisioned.status == 200, "\(provisioned.text)")
        let created = try await ask(
            admin.port,
            "POST /pools/default/buckets",
            form: "name=b&ramQuotaMB=100&numVBuckets=64"
        )
        #expect(created.status == 202, "\(created.text)")
    }

    private func stop() async {
        node.beginStop()
        await views.stop()
        await admin.stop()
        await node.stopViews()
        world.stop()
        await node.stop()
    }

    /// One request on a connection of its own.
    func ask(
        _ port: UInt16,
        _ line: String,
        form: String? = nil,
        json: String? = nil
    ) async throws -> RawClient.Response {
        let type = form == nil ? "application/json" : "application/x-www-form-urlencoded"
        let body = form ?? json
        var lines = ["\(line) HTTP/1.1", "Host: 127.0.0.1:\(port)"]
        lines += Site.Login.administrator.headers
        if let body { lines += ["Content-Type: \(type)", "Content-Length: \(body.utf8.count)"] }
        let text = lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")
        return try await apart {
            let client = try RawClient(port: port, timeoutSeconds: 60)
            try client.send(text)
            return try client.response()
        }
    }

    // MARK: Documents and views

    func put(_ name: String, _ body: String) async throws -> RawClient.Response {
        try await ask(views.port, "PUT /b/_design/\(name)", json: body)
    }

    /// A query of the view `v` of the design document `d`.
    func query(_ parameters: String, keys: String? = nil) async throws -> RawClient.Response {
        let method = keys == nil ? "GET" : "POST"
        return try await ask(
            views.port,
            "\(method) /b/_design/d/_view/v?\(parameters)",
            json: keys
        )
    }

    /// Stores documents, each once its vBucket serves.
    func write(_ documents: [(id: String, json: String)]) async throws {
        for (id, json) in documents {
            let outcome = await node.administration.documents.perform(
                .write(value: Array(json.utf8), flags: 0, expiry: 0, preservesExpiry: false),
                on: Array(id.utf8),
                inBucket: "b"
            )
            guard case .written = outcome else {
                Issue.record("\(id) was not stored: \(outcome)")
                return
            }
        }
    }
}

/// Counts the queries of a node by where they were answered.
final class CountedQueries: ViewQueries {
    struct Counts: Equatable {
        /// On the thread that began them.
        var prompt = 0
        /// Began there, and continued on other threads.
        var begun = 0
        /// Began in a task.
        var awaited = 0
    }

    private let queries: IndexQueries
    let counts = Guarded(Counts())

    init(_ queries: IndexQueries) {
        self.queries = queries
    }

    func begin(_ request: ViewRequest) async -> ViewQueryOutcome {
        counts.withLock { $0.awaited += 1 }
        return await queries.begin(request)
    }

    func beginNow(_ request: ViewRequest) -> ViewQueryBeginning {
        let beginning = queries.beginNow(request)
        counts.withLock { counts in
            switch beginning {
            case .whole, .refused: counts.prompt += 1
            case .begun: counts.begun += 1
            case .mustWait: break
            }
        }
        return beginning
    }
}

extension RawClient.Response {
    /// The rows of a view query, each as JSON with sorted members.
    var rows: [String] {
        (object["rows"] as? [Any] ?? []).map { row in
            let data = try? JSONSerialization.data(withJSONObject: row, options: .sortedKeys)
            return data.map { String(decoding: $0, as: UTF8.self) } ?? "?"
        }
    }
}
