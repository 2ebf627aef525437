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
        if tls {
            summary.authorityFile = try ClusterAuthority.store(of: outcome.cluster, credentials)
                .file
        }
        print(summary.text)
        guard !outcome.undone.isEmpty else { return }
        fflush(nil)
        note("\nNot done:")
        for sentence in outcome.undone { note("  \(sentence)") }
        throw ExitCode.failure
    }
}
