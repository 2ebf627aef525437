internal import ArgumentParser
internal import Foundation

/// `add`: starts one more node, adds it to the cluster, and rebalances.
struct AddCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Start one more node, add it to the cluster, and rebalance."
    )

    @Flag(inversion: .prefixedNo, help: "Rebalance after the node was added.")
    var rebalance = true

    func run() throws {
        let checkout = try Checkout()
        let memory = try ClusterMemory(checkout)
        var cluster = try runningCluster(memory)
        let starter = try Starter(checkout: checkout, credentials: Credentials(), memory: memory)
        let index = (cluster.nodes.map(\.index).max() ?? -1) + 1
        let ports = NodePorts(node: index, like: cluster.nodes.first)
        let (before, place) = (cluster, cluster.nodes.count)
        cluster.nodes.append(RememberedNode(index: index, ports: ports, process: nil))
        let topology: Topology
        do {
            try starter.run(&cluster, only: [index])
            topology = try Topology(admin: starter.admin(of: cluster))
            try topology.add(port: cluster.nodes[place].ports.admin)
        } catch {
            // The node is in no cluster: stop it, and do not store its number.
            starter.servers.stop(restoring: before)
            throw error
        }
        starter.servers.keep()
        if rebalance {
            try topology.rebalance()
            try topology.requireBalance()
        }
        print(
            "Node \(index) was added: http://127.0.0.1:\(cluster.nodes[place].ports.admin)"
                + (rebalance ? "" : "   it serves documents after cluster/rebalance")
        )
    }
}

/// `remove`: moves the documents of a node to the others, removes it, stops it, deletes its files.
struct RemoveCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Rebalance a node out of the cluster, stop it, and delete its files.",
        discussion: """
            Its documents are on the other nodes then. The directory of a node that was failed over is \
            renamed instead: it may have changes that no other node has.
            """
    )

    @Argument(help: "The node's number, from 0.")
    var node: Int

    func run() throws {
        let checkout = try Checkout()
        let memory = try ClusterMemory(checkout)
        var cluster = try runningCluster(memory)
        let leaving = try cluster.node(node)
        let topology = try cluster.topology(except: node)
        let member = try topology.member(leaving)
        try topology.rebalance(ejecting: [member])
        guard try topology.member(port: leaving.ports.admin) == nil else {
            throw Refusal(
                "The rebalance was stopped before node \(node) had left; it is still a member.",
                cure: "cluster/remove \(node) continues."
            )
        }
        leaving.process?.signal(SIGTERM)
        guard leaving.process?.awaitEnd(seconds: 60) != false else {
            throw Refusal("Node \(node) left the cluster, but its process does not end.")
        }
        cluster.nodes.removeAll { $0.index == node }
        try memory.store(cluster)
        let data = leaving.dataDirectory(in: cluster.directory)
        var kept: String?
        if !member.isActive, access(data, F_OK) == 0 {
            let name = data + ".removed-\(Int(Date().timeIntervalSince1970))"
            try carryOut(on: data) { try FileManager.default.moveItem(atPath: data, toPath: name) }
            kept = name
        }
        for path in leaving.files(in: cluster.directory) where access(path, F_OK) == 0 {
            try carryOut(on: path) { try FileManager.default.removeItem(atPath: path) }
        }
        print(
            kept.map {
                "Node \(node) left and was stopped. It was failed over and may have changes that no "
                    + "other node has: its documents are in \($0). Deleted: its log and its ready file."
            } ?? "Node \(node) left and was stopped. Deleted: \(data), its log and its ready file."
        )
    }

    /// Moves or deletes a file of the removed node.
    private func carryOut(on path: String, _ change: () throws -> Void) throws {
        do {
            try change()
        } catch {
            throw Refusal(
                "Node \(node) left and was stopped, but \(path) cannot be removed: \(error)",
                cure: "Remove \(path) by hand before a new node gets the number \(node)."
            )
        }
    }
}

/// `failover`: copies on other nodes become active instead of those of a node.
struct FailoverCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "failover",
        abstract: "Make copies on the other nodes active instead of those of a node.",
        discussion: """
            Without --hard, the failover is graceful: the node must run, and no write is lost. \
            With --hard, for a node that does not answer, writes that it had not replicated are \
            lost. cluster/recover brings the node back. Otherwise the next cluster/rebalance removes \
            it; cluster/start adds a removed node again.
            """
    )

    @Argument(help: "The node's number, from 0.")
    var node: Int

    @Flag(help: "Fail over at once, even if the node does not answer.")
    var hard = false

    func run() throws {
        let checkout = try Checkout()
        let memory = try ClusterMemory(checkout)
        let cluster = try runningCluster(memory)
        let topology = try cluster.topology(except: node)
        let failing = try cluster.node(node)
        try topology.failOver(topology.member(failing), isHard: hard)
        let after = try topology.member(failing)
        guard after.clusterMembership == "inactiveFailed" else {
            throw Refusal(
                "The failover was stopped before it ended; node \(node) still serves.",
                cure: "cluster/failover \(node) continues."
            )
        }
        print("Node \(node) is failed over.")
    }
}

/// `rebalance`: distributes the vBuckets evenly over the nodes.
struct RebalanceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rebalance",
        abstract: "Distribute the documents evenly over the nodes; failed-over nodes are removed."
    )

    @Flag(help: "Stop the running rebalance; completed moves stay.")
    var stop = false

    func run() throws {
        let checkout = try Checkout()
        let memory = try ClusterMemory(checkout, isRead: stop)
        let cluster = try runningCluster(memory)
        let topology = try cluster.topology()
        if stop {
            try topology.stopRebalance()
            print("The rebalance was stopped.")
        } else {
            try topology.rebalance()
            try topology.requireBalance()
            print("Balanced.")
            let known = Set(try topology.members.compactMap(\.port))
            let behind = try NodeDirectory.behind(cluster, checkout)
            for node in cluster.nodes where !known.contains(node.ports.admin) {
                let outcome =
                    behind.contains(node.index)
                    ? "was given up by a quorum recovery; cluster/start names the cure"
                    : "was removed; cluster/start adds it again, without its documents"
                print("Node \(node.index) \(outcome).")
            }
        }
    }
}

/// The running cluster.
///
/// - Throws: `Refusal` if none runs.
func runningCluster(_ memory: ClusterMemory) throws -> RememberedCluster {
    guard let cluster = try memory.load(), !cluster.runningNodes.isEmpty else {
        throw Refusal("No cluster runs.", cure: "cluster/start starts one.")
    }
    return cluster
}
