import Bytes
import ClusterService
import Foundation
import HTTPFrontend
import Logging
import Orchestration
import Testing
import ViewService
import Vocabulary

/// A node's view port over real sockets, beside its admin port, with design documents in memory and
/// queries that a test scripts.
struct ViewSite: Sendable {
    let site: Site
    let documents: MemoryDesignDocuments
    let queries: ScriptedQueries
    let trials: ScriptedTrials
    /// What the node has measured of its indexes.
    let reading: Guarded<ViewReading?>
    let server: ViewServer

    /// Runs a test with a new site, which has the bucket `b`.
    ///
    /// - Throws: The test's error.
    static func with(
        stallTimeout: Duration = .seconds(30),
        _ body: (ViewSite) async throws -> Void
    ) async throws {
        let documents = MemoryDesignDocuments()
        let queries = ScriptedQueries()
        let trials = ScriptedTrials()
        let reading = Guarded<ViewReading?>(nil)
        var services = ViewServer.Services(
            designDocuments: documents,
            queries: queries,
            trials: trials,
            reading: { reading.withLock { $0 } }
        )
        services.stallTimeout = stallTimeout
        try await Site.with(viewsPort: 8_092, views: services) { [services] site in
            try await site.createBucket("b")
            var settings = ViewServer.Settings(host: "127.0.0.1", port: 0)
            settings.stallTimeout = stallTimeout
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let server = try await ViewServer.start(
                beside: site.server,
                services,
                settings,
                logger: logger
            )
            let views = ViewSite(
                site: site,
                documents: documents,
                queries: queries,
                trials: trials,
                reading: reading,
                server: server
            )
            do {
                try await body(views)
            } catch {
                await server.stop()
                throw error
            }
            await server.stop()
        }
    }

    var port: UInt16 { server.port }

    /// The text of a request; a body also has a length.
    func request(
        _ line: String,
        _ login: Site.Login = .administrator,
        version: String = "HTTP/1.1",
        headers: [String] = [],
        body: String? = nil
    ) -> String {
        var lines = ["\(line) \(version)", "Host: 127.0.0.1:\(port)"] + login.headers + headers
        if let body { lines.append("Content-Length: \(body.utf8.count)") }
        return lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")
    }

    /// One request on a connection of its own.
    func ask(
        _ line: String,
        _ login: Site.Login = .administrator,
        headers: [String] = [],
        json: String? = nil
    ) async throws -> RawClient.Response {
        let headers = headers + (json == nil ? [] : ["Content-Type: application/json"])
        let text = request(line, login, headers: headers, body: json)
        let port = port
        return try await apart {
            let client = try RawClient(port: port)
            try client.send(text)
            return try client.response(toHead: line.hasPrefix("HEAD"))
        }
    }
}

/// Design documents in memory; a body that is not a JSON object is refused.
final class MemoryDesignDocuments: DesignDocumentPlane {
    private let buckets = Guarded<[String: [String: DesignDocument]]>([:])
    /// The controllers that were called, each as `operation bucket name`.
    let calls = Guarded<[String]>([])
    /// Answers every change with this, as a cluster without a majority might.
    let failure = Guarded<AdministrationError?>(nil)

    func documents(ofBucket bucket: String) -> [DesignDocument]? {
        buckets.withLock { buckets in
            (buckets[bucket]?.values).map(Array.init)?.sorted { $0.name < $1.name } ?? []
        }
    }

    func document(_ name: String, ofBucket bucket: String) -> DesignDocument? {
        buckets.withLock { $0[bucket]?[name] }
    }

    func putDesignDocument(
        _ name: String,
        body: [UInt8],
        inBucket bucket: String,
        precondition: Precondition<String>
    ) async throws(AdministrationError) -> DesignDocument {
        if let failure = failure.withLock({ $0 }) { throw failure }
        try check(precondition, name, bucket)
        guard (try? JSONSerialization.jsonObject(with: Data(body))) is [String: Any] else {
            throw .refused("Not an object")
        }
        let document = DesignDocument(name: name, body: body, number: 1)
        buckets.withLock { $0[bucket, default: [:]][name] = document }
        return document
    }

    private func check(
        _ precondition: Precondition<String>,
        _ name: String,
        _ bucket: String
    ) throws(AdministrationError) {
        let revision = document(name, ofBucket: bucket)?.revision.description
        guard precondition.permits(revision) else { throw .differs }
    }

    func deleteDesignDocument(
        _ name: String,
        inBucket bucket: String,
        precondition: Precondition<String>
    ) async throws(AdministrationError) {
        try check(precondition, name, bucket)
        guard buckets.withLock({ $0[bucket]?.removeValue(forKey: name) }) != nil else {
            throw .unknown
        }
    }

    func compactViews(
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async throws(AdministrationError) { _ = try record("compact", name, bucket) }

    func cancelViewCompaction(
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async throws(AdministrationError) { _ = try record("cancel", name, bucket) }

    func setUpdateMinChanges(
        ofDesignDocument name: String,
        inBucket bucket: String,
        updateMinChanges: Int?,
        replicaUpdateMinChanges: Int?
    ) async throws(AdministrationError) -> DesignDocument {
        let numbers = [updateMinChanges, replicaUpdateMinChanges].map { $0.map(String.init) ?? "-" }
        return try record("thresholds \(numbers.joined(separator: " "))", name, bucket)
    }

    private func record(
        _ operation: String,
        _ name: String,
        _ bucket: String
    ) throws(AdministrationError) -> DesignDocument {
        calls.withLock { $0.append("\(operation) \(bucket) \(name)") }
        guard let document = document(name, ofBucket: bucket) else {
            throw .unknown
        }
        return document
    }
}

/// Queries whose outcome a test sets.
final class ScriptedQueries: ViewQueries {
    typealias Script = @Sendable (ViewRequest) -> ViewQueryOutcome

    let requests = Guarded<[ViewRequest]>([])
    let script = Guarded<Script>({ _ in .rows(ScriptedRows(["{\"rows\":[]}"])) })
    /// Begins queries on the calling thread; nil if all must wait.
    let promptScript = Guarded<(@Sendable (ViewRequest) -> ViewQueryBeginning)?>(nil)
    /// The views of the queries for which that was called.
    let promptViews = Guarded<[String]>([])
    /// What every query waits for before its outcome.
    let wait = Guarded<@Sendable () async -> Void>({})

    func begin(_ request: ViewRequest) async -> ViewQueryOutcome {
        requests.withLock { $0.append(request) }
        let wait = wait.withLock { $0 }
        await wait()
        return script.withLock { $0 }(request)
    }

    func beginNow(_ request: ViewRequest) -> ViewQueryBeginning {
        guard let script = promptScript.withLock({ $0 }) else { return .mustWait }
        promptViews.withLock { $0.append(request.view) }
        return script(request)
    }

    /// The views of the queries that did not begin on the calling thread.
    var views: [String] { requests.withLock { $0.map(\.view) } }

    /// Answers every query with the same outcome.
    func answer(_ outcome: ViewQueryOutcome) { script.withLock { $0 = { _ in outcome } } }

    /// The parameters of the last request as `name=value`, those of a body as `name:value`.
    var lastParameters: [String] {
        requests.withLock { requests in
            (requests.last?.parameters ?? []).map { parameter in
                switch parameter.value {
                case .text(let text): "\(parameter.name)=\(text)"
                case .json(let bytes): "\(parameter.name):\(String(decoding: bytes, as: UTF8.self))"
                }
            }
        }
    }
}

/// Rows that a closure makes, with counts of what was requested.
final class ScriptedRows: ViewRows {
    struct Failure: Error {}

    private let part: @Sendable (_ number: Int) async throws -> ViewRowsPart
    private let requested = Guarded(0)
    private let cancelled = Guarded(0)

    init(_ part: @escaping @Sendable (_ number: Int) async throws -> ViewRowsPart) {
        self.part = part
    }

    /// These texts, each as a part.
    convenience init(_ texts: [String], isPartial: Bool = false) {
        self.init { number in
            number < texts.count
                ? .bytes(Array(texts[number].utf8)) : .end(isPartial: isPartial)
        }
    }

    func next() async throws -> ViewRowsPart {
        let number = requested.withLock { count in
            defer { count += 1 }
            return count
        }
        return try await part(number)
    }

    func cancel() { cancelled.withLock { $0 += 1 } }

    var requestedCount: Int { requested.withLock { $0 } }

    var isCancelled: Bool { cancelled.withLock { $0 > 0 } }

    /// Whether `cancel` was called exactly once within two seconds.
    func isCancelledOnce() async throws -> Bool {
        for _ in 0..<200 where cancelled.withLock({ $0 }) == 0 {
            try await Task.sleep(for: .milliseconds(10))
        }
        return cancelled.withLock { $0 } == 1
    }
}
