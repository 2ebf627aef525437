internal import ArgumentParser
internal import DivanClient
internal import Foundation

/// `demo`: a cluster, a bucket of real documents, a view of them, ten seconds of load, and instructions to connect.
struct DemoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Start the cluster, fill the bucket `demo`, run a load test, leave it running."
    )

    @Option(help: "How many nodes a new cluster has.")
    var nodes = 3

    @Option(help: "How long the load test takes.")
    var seconds = 10.0

    @Option(
        name: .customLong("dir"),
        help: "Directory of data and logs (default: the last one, else .divan/cluster)."
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
        guard let bucket = outcome.buckets.first(where: { $0.name == DemoCommand.bucket.name })
        else { throw Refusal("The bucket demo was deleted meanwhile.") }

        print("Loading \(documents.description) into the bucket demo ...")
        let ports = outcome.cluster.runningNodes.map(\.ports.kv)
        do {
            let client = try BucketClient(bucket.name, ports: ports, credentials: Credentials())
            try DemoLoader(client: client).load(documents.all)
        } catch let error as ClientError {
            throw Refusal(
                "The \(error)",
                cure: "cluster/status shows the state of the nodes, cluster/logs 0 the reason."
            )
        }

        print("Indexing them by a view: `orders/by_status` ...")
        let view = DemoView(
            bucket: bucket.name,
            admin: AdminClient(
                port: outcome.cluster.runningNodes[0].ports.admin,
                credentials: Credentials()
            )
        )
        try view.create()
        print(try view.table())

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
        let starter = try Starter(
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
            "  view = cluster.bucket('demo').view_query('orders', 'by_status', group=True)",
            "  print([(row.key, row.value) for row in view.rows()])",
        ]
        if isPasswordless {
            lines += [
                "", "The bucket demo needs no password, as very old clients expect. Its nodes",
                "listen on 127.0.0.1 only; use a password for documents that matter.",
            ]
        }
        return lines.joined(separator: "\n")
    }
}
