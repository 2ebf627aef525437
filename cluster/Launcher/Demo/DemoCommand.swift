internal import ArgumentParser
internal import Foundation

/// `demo`: a cluster, a bucket of real documents, ten seconds of load, and where to go from there.
struct DemoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Start the cluster, fill the bucket `demo`, put it under load, leave it running."
    )

    @Option(help: "How many nodes a new cluster has.")
    var nodes = 3

    @Option(help: "How long the load test takes.")
    var seconds = 10.0

    @Option(
        name: .customLong("dir"),
        help: "Where data and logs go (default: where they went last, else .divan/cluster)."
    )
    var directory: String?

    @Option(help: "Added to every port, for more than one cluster on a machine.")
    var portOffset: Int?

    private static let bucket = BucketRequest(name: "demo", isPasswordless: true)

    func run() throws {
        let began = monotonicNanoseconds()
        let documents = try DemoDocuments()
        let checkout = try Checkout()
        let outcome = try start(checkout)
        let took = Double(monotonicNanoseconds() - began) / 1e9
        guard let node = outcome.cluster.nodes.first,
            let bucket = outcome.buckets.first(where: { $0.name == DemoCommand.bucket.name })
        else { throw Refusal("The bucket demo is gone again.") }

        print("Loading \(documents.description) into the bucket demo ...")
        let admin = AdminClient(port: node.ports.admin, credentials: Credentials())
        let map = try admin.require("GET", "/pools/default/b/\(bucket.name)").json(DemoMap.self)
        let clients = try map.ports.map { try open(bucket, port: $0) }
        try DemoLoader(clients: clients, active: map.active).load(documents.all)

        print("\nLoad test by divan-bench, \(Int(seconds)) s; servers and load share this machine.")
        let load = DemoLoad(checkout: checkout, credentials: Credentials())
        let isMeasured = try load.run(
            on: outcome.cluster.nodes,
            bucket: bucket.name,
            seconds: seconds
        )
        print()

        let summary = Summary(outcome: outcome, credentials: Credentials(), seconds: took)
        print(summary.text)
        print(advice(summary.connectionString, isPasswordless: bucket.passwordless == true))
        if !isMeasured { throw ExitCode.failure }
    }

    private func start(_ checkout: Checkout) throws -> Starter.Outcome {
        let starter = Starter(
            checkout: checkout,
            credentials: Credentials(),
            memory: try ClusterMemory(checkout)
        )
        return try starter.start(
            directory: directory,
            nodes: nodes,
            portOffset: portOffset,
            buckets: [DemoCommand.bucket]
        )
    }

    /// A connection that has the bucket selected: without a password where the bucket needs none.
    private func open(_ bucket: BucketStatus, port: Int) throws -> MemcachedClient {
        let client = try MemcachedClient(port: port)
        if bucket.passwordless == true {
            let login = try client.logIn(user: bucket.name, password: "")
            guard login.status == 0 else {
                throw Refusal("Bucket \(bucket.name) refused a login without a password.")
            }
            return client
        }
        let credentials = Credentials()
        _ = try client.logIn(user: credentials.user, password: credentials.password)
        guard try client.selectBucket(bucket.name).status == 0 else {
            throw Refusal("The data port refused to select bucket \(bucket.name).")
        }
        return client
    }

    private func advice(_ connectionString: String, isPasswordless: Bool) -> String {
        let credentials = Credentials()
        let password = credentials.areDefault ? credentials.password : "..."
        var lines = [
            "", "Try, in Python (pip install couchbase):", "",
            "  from couchbase.auth import PasswordAuthenticator",
            "  from couchbase.cluster import Cluster",
            "  from couchbase.options import ClusterOptions",
            "  login = PasswordAuthenticator('\(credentials.user)', '\(password)')",
            "  cluster = Cluster('\(connectionString)', ClusterOptions(login))",
            "  demo = cluster.bucket('demo').default_collection()",
            "  print(demo.get('country::FR').content_as[dict])",
        ]
        if isPasswordless {
            lines += [
                "", "The bucket demo needs no password, as clients of long ago expect. Its nodes",
                "listen on 127.0.0.1 only; choose otherwise for documents that matter.",
            ]
        }
        return lines.joined(separator: "\n")
    }
}

/// Who serves which vBucket of the bucket, as the cluster tells clients.
private struct DemoMap: Decodable {
    private struct Servers: Decodable {
        let serverList: [String]
        let vBucketMap: [[Int]]
    }

    private let vBucketServerMap: Servers

    /// Data ports, by node.
    var ports: [Int] {
        vBucketServerMap.serverList.compactMap { $0.split(separator: ":").last.flatMap { Int($0) } }
    }

    /// The node of each vBucket; -1 where there is none.
    var active: [Int] { vBucketServerMap.vBucketMap.map { $0.first ?? -1 } }
}
