internal import ArgumentParser
internal import DivanClient
internal import Foundation

/// `demo`: a cluster in a directory of its own, a bucket of real documents, a view of them, load on
/// another bucket, and instructions to connect.
struct DemoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Start a cluster of its own, fill a bucket, run a load test, leave it running.",
        discussion: """
            The documents are in the bucket `demo`, the keys of the load test in `demo-load`. A later \
            run does not load the documents again. A bucket of these names that the demo did not \
            make is refused.
            """
    )

    @Option(help: "How many nodes a new cluster has (default: 3).")
    var nodes: Int?

    @Option(help: "How long the load test takes.")
    var seconds = 10.0

    @Option(
        name: .customLong("dir"),
        help: "Directory of data and logs (default: .divan/demo)."
    )
    var directory: String?

    @Option(help: "Added to every port, for more than one cluster on a machine.")
    var portOffset: Int?

    @Flag(help: "Load the documents and run the load test over TLS.")
    var tls = false

    func run() throws {
        let began = monotonicNanoseconds()
        let documents = try DemoCorpus()
        let checkout = try Checkout()
        let credentials = Credentials()
        let directory = directory ?? checkout.memory + "/demo"
        print("The demo's cluster is in \(directory).")
        var outcome = try start(checkout, in: directory)
        let ports = outcome.cluster.runningNodes.map(\.ports)
        guard let first = ports.first else { throw Refusal("No node of the demo runs.") }
        let admin = AdminClient(port: first.admin, credentials: credentials)
        var buckets = try DemoBuckets(in: outcome.cluster.directory)
        let provisioning = Provisioning(admin: admin, nodeCount: ports.count)
        outcome.buckets = try buckets.create(provisioning, kvPorts: ports.map(\.kv))
        let took = Double(monotonicNanoseconds() - began) / 1e9
        guard let bucket = outcome.buckets.first(where: { $0.name == DemoBuckets.documents.name })
        else { throw Refusal("The bucket demo was deleted meanwhile.") }
        let authority = tls ? try ClusterAuthority.store(of: outcome.cluster, credentials) : nil
        try load(documents, into: bucket, &buckets) { () throws(ClientError) in
            try BucketClient(
                bucket.name,
                ports: ports.map(tls ? \.kvTLS : \.kv),
                credentials: credentials,
                trust: authority?.trust
            )
        }
        let view = DemoView(bucket: bucket.name, admin: admin)
        print(try view.create() ? "Indexed" : "Already indexed", "by a view: `orders/by_status`.")
        print(try view.table())

        let test = DemoLoad(
            checkout: checkout,
            credentials: credentials,
            authorityFile: authority?.file
        )
        print("\nLoad test by divan-bench, \(Int(seconds)) s, with keys of its own in the bucket")
        print("demo-load; servers and load share this machine.")
        let isMeasured = try test.run(
            on: outcome.cluster.runningNodes,
            bucket: DemoBuckets.load.name,
            seconds: seconds
        )
        print()

        var summary = Summary(outcome: outcome, credentials: credentials, seconds: took)
        summary.authorityFile = authority?.file
        print(summary.text)
        print(advice(summary.connectionString, isPasswordless: bucket.passwordless == true))
        for sentence in outcome.undone { note("Not done: \(sentence)") }
        if !isMeasured || !outcome.undone.isEmpty { throw ExitCode.failure }
    }

    private func start(_ checkout: Checkout, in directory: String) throws -> Starter.Outcome {
        let starter = try Starter(
            checkout: checkout,
            credentials: Credentials(),
            memory: try ClusterMemory(checkout)
        )
        var order = Starter.Order(directory: directory, nodes: nodes, portOffset: portOffset)
        order.newNodes = 3
        return try starter.start(order)
    }

    /// Loads the documents, unless an earlier run has: a user may have changed them meanwhile.
    private func load(
        _ documents: DemoCorpus,
        into bucket: BucketStatus,
        _ buckets: inout DemoBuckets,
        through open: () throws(ClientError) -> BucketClient
    ) throws {
        guard !buckets.isLoaded(bucket) else {
            print("The bucket demo has its documents from an earlier run: nothing is loaded.")
            return
        }
        print("Loading \(documents.description) into the bucket demo ...")
        do {
            try DemoLoader(client: open()).load(documents.all)
        } catch let error as ClientError {
            throw Refusal(
                "The \(error)",
                cure: "cluster/status shows the state of the nodes, cluster/logs 0 the reason."
            )
        }
        try buckets.setLoaded(bucket)
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
