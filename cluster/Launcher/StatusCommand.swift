internal import ArgumentParser
internal import Foundation

/// `status`: the state of the cluster, as text and, for programs, as JSON.
struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show the state of the cluster."
    )

    @Flag(help: "As JSON, for programs.")
    var json = false

    func run() throws {
        let checkout = try Checkout()
        let status = try ClusterStatus(cluster: ClusterMemory(checkout, isRead: true).load())
        print(json ? try status.json : status.text)
    }
}

/// The state of the remembered cluster, node by node.
struct ClusterStatus: Encodable {
    struct Node: Encodable {
        let index: Int
        let running: Bool
        let pid: Int32?
        let uptimeSeconds: Int?
        let kv: Int
        let admin: Int
        let views: Int
        let data: String
        let log: String
        /// The cluster's state of the node: `active`, `inactiveAdded`, `inactiveFailed`; absent if the
        /// node has no cluster.
        let membership: String?
        /// Of a node that was failed over or added: whether the next rebalance adds it with its copies
        /// (`delta`), without them (`full`), or not (`none`).
        let recoveryType: String?
        /// By which an operator recognises the key of a node that runs and has no cluster.
        let fingerprint: String?
    }

    struct Bucket: Encodable {
        let name: String
        let healthy: Bool
        let quotaMegabytes: Int
        let items: Int
        let passwordless: Bool
    }

    let running: Bool
    let directory: String?
    let nodes: [Node]
    /// Absent if no node runs.
    let buckets: [Bucket]?
    /// Whether a rebalance would change anything; absent if no node of a cluster runs.
    let needsRebalance: Bool?
    /// The conditions that need an operator, with their cures; absent if no node of a cluster runs.
    let alerts: [String]?

    init(cluster: RememberedCluster?) throws {
        directory = cluster?.directory
        running = cluster?.runningNodes.isEmpty == false
        let admin = try cluster.flatMap { cluster in
            try cluster.runningNodes.isEmpty
                ? nil : cluster.admin(Credentials(), leaderTimeoutSeconds: 0)
        }
        let standing = try admin.map { try Standing(asking: $0) }
        let pool = try standing.flatMap { standing in
            standing == .alone ? nil : try admin.map { try Topology(admin: $0).pool }
        }
        needsRebalance = pool.map { !$0.balanced }
        alerts = pool.map { $0.alerts.map(\.msg) }
        nodes =
            cluster?.nodes.map { node in
                let process = node.process.flatMap { $0.isRunning ? $0 : nil }
                let member = pool?.nodes.first { $0.port == node.ports.admin }
                return Node(
                    index: node.index,
                    running: process != nil,
                    pid: process?.pid,
                    uptimeSeconds: process?.uptimeSeconds,
                    kv: node.ports.kv,
                    admin: node.ports.admin,
                    views: node.ports.views,
                    data: node.dataDirectory(in: cluster?.directory ?? ""),
                    log: node.logFile(in: cluster?.directory ?? ""),
                    membership: member?.clusterMembership,
                    recoveryType: member?.isActive == false ? member?.recoveryType : nil,
                    fingerprint: process == nil || member != nil
                        ? nil : Self.fingerprint(of: node.ports.admin)
                )
            } ?? []
        guard let admin, standing != .alone else {
            buckets = admin.map { _ in [] }
            return
        }
        buckets = try Provisioning(admin: admin, nodeCount: nodes.count).buckets().map { bucket in
            Bucket(
                name: bucket.name,
                healthy: bucket.isHealthy,
                quotaMegabytes: Int(bucket.quota.rawRAM >> 20),
                items: bucket.basicStats?.itemCount ?? 0,
                passwordless: bucket.passwordless ?? false
            )
        }
    }

    /// The fingerprint that a node shows to everybody; nil if it does not answer.
    private static func fingerprint(of port: Int) -> String? {
        struct Introduction: Decodable { let fingerprint: String }
        let client = AdminClient(port: port, credentials: Credentials(), timeoutSeconds: 2)
        let reply = try? client.request("GET", "/nodes/self/peer")
        return try? reply?.json(Introduction.self).fingerprint
    }

    var json: String {
        get throws {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        }
    }

    var text: String {
        guard running else { return "No cluster runs. cluster/start starts one." }
        var lines = nodes.map { node in
            guard node.running else {
                let isKnown = needsRebalance != nil
                return "node \(node.index)   down" + (isKnown ? remark(node) : "")
            }
            let pid = node.pid.map { String($0) } ?? "-"
            return "node \(node.index)   up \(node.uptimeSeconds ?? 0) s   "
                + "http://127.0.0.1:\(node.admin)   couchbase://127.0.0.1:\(node.kv)   "
                + "views \(node.views)   pid \(pid)"
                + remark(node)
        }
        lines += (buckets ?? []).map { bucket in
            "bucket   \(bucket.name)   \(bucket.healthy ? "healthy" : "not healthy")   "
                + "\(bucket.items) \(bucket.items == 1 ? "item" : "items")   \(bucket.quotaMegabytes) MB"
                + (bucket.passwordless ? "   no password needed" : "")
        }
        if needsRebalance == true {
            lines.append("A rebalance is needed: cluster/rebalance")
        }
        lines += (alerts ?? []).map { "alert   \($0)" }
        return lines.joined(separator: "\n")
    }

    /// The state of a node in its cluster, if it is not an active member.
    private func remark(_ node: Node) -> String {
        switch node.membership {
        case "active": ""
        case "inactiveAdded" where node.recoveryType ?? "none" != "none":
            "   failed over; the next rebalance adds it back"
        case "inactiveAdded": "   serves after the next rebalance"
        case "inactiveFailed": "   failed over; the next rebalance removes it"
        case nil: "   in no cluster" + (node.fingerprint.map { "   fingerprint \($0)" } ?? "")
        case .some(let other): "   \(other)"
        }
    }
}
