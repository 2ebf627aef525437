internal import Foundation
internal import LinuxPlatform
internal import Seams

/// Starts a cluster: starts the nodes that do not run, provisions a new cluster, creates missing
/// buckets, and waits until every bucket serves.
struct Starter {
    let checkout: Checkout
    let credentials: Credentials
    private let memory: ClusterMemory
    /// The servers that this command starts; a failure stops them until `keep()` was called.
    let servers: StartedServers

    /// - Throws: `Refusal` if the remembered cluster cannot be read.
    init(checkout: Checkout, credentials: Credentials, memory: ClusterMemory) throws {
        self.checkout = checkout
        self.credentials = credentials
        self.memory = memory
        servers = try StartedServers(memory)
    }

    /// The result of a start.
    struct Outcome {
        let cluster: RememberedCluster
        let startedNodes: Int
        let buckets: [BucketStatus]
    }

    func start(
        directory: String?,
        nodes: Int,
        portOffset: Int?,
        buckets: [BucketRequest]
    ) throws -> Outcome {
        var cluster = try resolve(directory: directory, nodes: nodes, portOffset: portOffset)
        let started = try run(&cluster)
        do {
            let statuses = try makeServe(cluster, buckets)
            servers.keep()
            return Outcome(cluster: cluster, startedNodes: started, buckets: statuses)
        } catch {
            // The started nodes are ready, and the cluster may need them to recover.
            servers.keep()
            if let names = servers.names {
                note("This command started \(names), which will run until cluster/stop.")
            }
            throw error
        }
    }

    /// Provisions running nodes, adds them to the cluster, creates buckets, and waits until all
    /// serve.
    private func makeServe(
        _ cluster: RememberedCluster,
        _ buckets: [BucketRequest]
    ) throws -> [BucketStatus] {
        let admin = try admin(of: cluster)
        let provisioning = Provisioning(admin: admin, nodeCount: cluster.nodes.count)
        try provisioning.provision()
        let topology = Topology(admin: admin)
        try gather(cluster.nodes, topology)
        try provisioning.create(buckets)
        let members = try topology.members
        let active = Set(members.filter(\.isActive).compactMap(\.port))
        for node in cluster.nodes where !active.contains(node.ports.admin) {
            let isToGo = members.first { $0.port == node.ports.admin }?.isToGo ?? false
            note(
                isToGo
                    ? "Node \(node.index) was failed over and serves nothing: cluster/rebalance "
                        + "removes it, and cluster/start adds it again."
                    : "Node \(node.index) serves nothing yet: cluster/rebalance moves data to it."
            )
        }
        let serving = cluster.runningNodes.filter { active.contains($0.ports.admin) }
        return try provisioning.awaitServing(kvPorts: serving.map(\.ports.kv))
    }

    /// Starts the nodes that do not run, and waits until they listen.
    ///
    /// - Returns: The number of nodes started.
    /// - Throws: `Refusal` if a node does not become ready; then all started nodes are stopped.
    @discardableResult
    func run(_ cluster: inout RememberedCluster) throws -> Int {
        do {
            return try startAll(&cluster)
        } catch {
            servers.stop()
            throw error
        }
    }

    private func startAll(_ cluster: inout RememberedCluster) throws -> Int {
        let program = try checkout.program("divan-server")
        try makeDirectory(cluster.directory)
        var started: [Int] = []
        for (place, node) in cluster.nodes.enumerated() where node.process?.isRunning != true {
            cluster.nodes[place].process = try servers.start(program, node, in: cluster.directory)
            started.append(place)
        }
        // Store the processes before a later step can fail, so that `stop` always finds them.
        try servers.store(cluster)
        for place in started {
            try awaitReady(&cluster.nodes[place], in: cluster.directory)
        }
        try servers.store(cluster, isToStay: true)
        return started.count
    }

    /// How long the election of a leader may take once nodes run.
    static let leaderTimeoutSeconds = 5.0

    /// The admin port of a node with the current state of the cluster.
    func admin(of cluster: RememberedCluster) throws -> AdminClient {
        try cluster.admin(credentials, leaderTimeoutSeconds: Starter.leaderTimeoutSeconds)
    }

    /// Adds the nodes that are not members to the cluster, and rebalances.
    private func gather(_ nodes: [RememberedNode], _ topology: Topology) throws {
        let known = Set(try topology.members.compactMap(\.port))
        let strangers = nodes.filter { !known.contains($0.ports.admin) }
        guard !strangers.isEmpty else { return }
        for node in strangers {
            try awaitFreedom(of: node)
            try topology.add(port: node.ports.admin)
        }
        try topology.rebalance()
    }

    /// Waits until a node has no cluster, at most 30 s.
    ///
    /// A node that was removed while it was down learns of its removal after its start, and then
    /// resets itself.
    private func awaitFreedom(of node: RememberedNode) throws {
        let deadline = Deadline(seconds: 30)
        let admin = AdminClient(port: node.ports.admin, credentials: credentials)
        while try Standing(asking: admin) != .alone, !deadline.hasPassed {
            pause(milliseconds: 20)
        }
    }

    /// The cluster to start: the running one, the remembered one, or a new one.
    private func resolve(
        directory: String?,
        nodes: Int,
        portOffset: Int?
    ) throws -> RememberedCluster {
        let remembered = try memory.load()
        let wanted = directory.map { URL(filePath: $0).standardizedFileURL.path }
        if var cluster = remembered, wanted == nil || wanted == cluster.directory {
            let count = cluster.nodes.count
            if nodes > count {
                let known = count == 1 ? "1 node" : "\(count) nodes"
                note("This cluster has \(known); cluster/add adds more.")
            }
            for place in cluster.nodes.indices where cluster.nodes[place].process?.isRunning != true
            {
                guard let portOffset else { break }
                cluster.nodes[place].ports = NodePorts(
                    node: cluster.nodes[place].index,
                    offset: portOffset
                )
            }
            return cluster
        }
        if let remembered, !remembered.runningNodes.isEmpty {
            throw Refusal(
                "This checkout's cluster runs in \(remembered.directory) already.",
                cure: "Stop it first: cluster/stop"
            )
        }
        let fresh = (0..<nodes).map { index in
            let ports = NodePorts(node: index, offset: portOffset ?? 0)
            return RememberedNode(index: index, ports: ports, process: nil)
        }
        return RememberedCluster(directory: wanted ?? checkout.defaultDirectory, nodes: fresh)
    }

    private func makeDirectory(_ path: String) throws {
        var above = ""
        for part in path.split(separator: "/") {
            above += "/" + part
            guard mkdir(above, PrivateFiles.directoryMode) != 0, errno != EEXIST else { continue }
            throw Refusal(
                "Cannot make the directory \(above): \(systemError()).",
                cure: "Name another one with --dir."
            )
        }
        guard access(path, W_OK) == 0 else {
            throw Refusal(
                "Cannot write in the directory \(path): \(systemError()).",
                cure: "Name another one with --dir."
            )
        }
        // Another user must not replace the nodes' logs, or a node's directory.
        try withheld { () throws(DiskError) in try PrivateFiles.check(directory: path) }
    }

    /// Waits for the line that a server prints when it listens, and reads its ports from it.
    private func awaitReady(_ node: inout RememberedNode, in directory: String) throws {
        let deadline = Deadline(seconds: 60)
        let log = node.logFile(in: directory)
        while true {
            if let line = try readyLine(node.readyFile(in: directory)) {
                node.ports.kv = line.kv
                node.ports.admin = line.admin
                if let views = line.views { node.ports.views = views }
                return
            }
            if node.process?.isRunning != true {
                throw Refusal(
                    "Node \(node.index) ended before it was ready. The end of its log:\n"
                        + lastLines(of: log, count: 8),
                    cure: "The whole log: \(log)"
                )
            }
            if deadline.hasPassed {
                throw Refusal(
                    "Node \(node.index) is not ready after 60 seconds. The end of its log:\n"
                        + lastLines(of: log, count: 8),
                    cure: "The whole log: \(log)"
                )
            }
            pause(milliseconds: 5)
        }
    }

    private struct ReadyLine: Decodable {
        let event: String
        let kv: Int
        let admin: Int
        /// Null for a node without views.
        let views: Int?
    }

    private func readyLine(_ path: String) throws -> ReadyLine? {
        guard let data = FileManager.default.contents(atPath: path),
            let end = data.firstIndex(of: 10)
        else { return nil }
        guard let line = try? JSONDecoder().decode(ReadyLine.self, from: data[..<end]),
            line.event == "ready"
        else {
            let text = String(decoding: data[..<end], as: UTF8.self)
            throw Refusal("The server's first line is not what a divan-server prints: \(text)")
        }
        return line
    }
}

/// The last lines of a log, indented.
func lastLines(of path: String, count: Int) -> String {
    let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
    let lines = text.split(separator: "\n").suffix(count)
    return lines.isEmpty ? "    (empty)" : lines.map { "    " + $0 }.joined(separator: "\n")
}
