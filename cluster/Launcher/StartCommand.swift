internal import ArgumentParser
internal import Foundation

/// `start`: returns when every bucket serves.
struct StartCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "start",
        abstract: "Start the nodes that do not run, and create the named buckets."
    )

    @Option(help: "How many nodes a new cluster has (default: 1).")
    var nodes: Int?

    @Option(
        name: .customLong("dir"),
        help: "Directory of data and logs (default: the last one, else .divan/cluster)."
    )
    var directory: String?

    @Option(
        name: .customLong("bucket"),
        help: ArgumentHelp(
            "A bucket to create if it does not exist; may be repeated.",
            valueName: "NAME[:MB[:REPLICAS[:passwordless]]]"
        )
    )
    var buckets: [BucketRequest] = []

    @Option(help: "Added to every port, for more than one cluster on a machine.")
    var portOffset: Int?

    @Flag(
        help: """
            Also start nodes that a quorum recovery gave up: their documents are deleted, and they are \
            added as new nodes.
            """
    )
    var discard = false

    @Flag(help: "Store the cluster's CA, and print how an SDK connects over TLS.")
    var tls = false

    private static let nodesMax = 16

    func run() throws {
        guard (1...Self.nodesMax).contains(nodes ?? 1) else {
            throw Refusal("--nodes must be 1 to \(Self.nodesMax): all nodes run on this machine.")
        }
        let began = monotonicNanoseconds()
        let checkout = try Checkout()
        let credentials = Credentials()
        let memory = try ClusterMemory(checkout)
        let starter = try Starter(checkout: checkout, credentials: credentials, memory: memory)
        var order = Starter.Order(directory: directory, nodes: nodes, portOffset: portOffset)
        order.buckets = buckets
        order.discards = discard
        let outcome = try starter.start(order)
        let seconds = Double(monotonicNanoseconds() - began) / 1e9
        var summary = Summary(outcome: outcome, credentials: credentials, seconds: seconds)
        if tls { summary.authorityFile = try storeAuthority(of: outcome.cluster, credentials) }
        print(summary.text)
        guard !outcome.undone.isEmpty else { return }
        fflush(nil)
        note("\nNot done:")
        for sentence in outcome.undone { note("  \(sentence)") }
        throw ExitCode.failure
    }

    /// Stores the certificate of the cluster's authority beside its nodes; returns the file.
    ///
    /// The cluster makes it moments after its first start.
    private func storeAuthority(
        of cluster: RememberedCluster,
        _ credentials: Credentials
    ) throws -> String {
        guard let node = cluster.runningNodes.first else { throw Refusal("No node runs.") }
        let admin = AdminClient(port: node.ports.admin, credentials: credentials)
        for _ in 0..<Self.authorityAttempts {
            let reply = try admin.request("GET", "/pools/default/certificate")
            if reply.status == 200 {
                let file = cluster.directory + "/ca.pem"
                try Data(reply.body).write(to: URL(fileURLWithPath: file), options: .atomic)
                return file
            }
            Thread.sleep(forTimeInterval: 0.1)
        }
        throw Refusal(
            "The cluster has no certificate authority after 10 seconds.",
            cure: "Look into the log of node \(node.index): cluster/logs \(node.index)"
        )
    }

    private static let authorityAttempts = 100
}
