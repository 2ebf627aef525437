internal import Foundation

/// The summary after a start: addresses, how to connect, how to stop.
struct Summary {
    let outcome: Starter.Outcome
    let credentials: Credentials
    let seconds: Double
    /// The certificate with which an SDK connects over TLS; nil to show only the plain ports.
    var authorityFile: String?

    var text: String {
        let nodes = outcome.cluster.nodes
        let took = String(format: "%.2f s", seconds)
        let verb = outcome.startedNodes == 0 ? "runs already" : "runs, after \(took)"
        var lines = ["Divan \(verb): \(nodeCount(nodes.count))", ""]
        for node in nodes {
            guard node.process?.isRunning == true else {
                lines.append("  node \(node.index)     does not run")
                continue
            }
            let pid = node.process.map { String($0.pid) } ?? "-"
            lines.append("  node \(node.index)     \(browse(node))   pid \(pid)")
        }
        lines += outcome.buckets.map(line)
        if outcome.buckets.isEmpty {
            lines.append("  no bucket yet: use the browser, or cluster/start --bucket NAME")
        }
        lines += ["", "  data       \(outcome.cluster.directory)"]
        lines.append("  connect    \(connectionString)   \(login)")
        if let authorityFile {
            lines.append("  with TLS   \(securedConnectionString)   trusting \(authorityFile)")
        }
        if let node = nodes.first(where: { $0.process?.isRunning == true }) {
            lines.append("  browse     \(browse(node))")
        }
        lines.append("  stop       cluster/stop     (logs: cluster/logs 0)")
        return lines.joined(separator: "\n")
    }

    var connectionString: String {
        let ports = outcome.cluster.runningNodes.map { "127.0.0.1:\($0.ports.kv)" }
        return "couchbase://" + ports.joined(separator: ",")
    }

    private var securedConnectionString: String {
        let ports = outcome.cluster.runningNodes.map { "127.0.0.1:\($0.ports.kvTLS)" }
        return "couchbases://" + ports.joined(separator: ",")
    }

    private var login: String {
        credentials.areDefault
            ? "user \(credentials.user), password \(credentials.password)"
            : "user \(credentials.user), password as in DIVAN_PASSWORD"
    }

    private func browse(_ node: RememberedNode) -> String {
        "http://127.0.0.1:\(node.ports.admin)"
    }

    private func line(_ bucket: BucketStatus) -> String {
        let replicas = bucket.replicaNumber == 1 ? "1 replica" : "\(bucket.replicaNumber) replicas"
        var line = "  bucket     \(bucket.name), \(bucket.quota.rawRAM >> 20) MB, \(replicas)"
        if bucket.passwordless == true { line += ", no password needed" }
        return line
    }
}
