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

    /// What a start is to do.
    struct Order {
        /// Nil for the last directory, or the default one.
        var directory: String?
        /// The nodes that the cluster should have; nil for those that it has, or for a new cluster
        /// `newNodes`.
        var nodes: Int?
        var newNodes = 1
        var portOffset: Int?
        var buckets: [BucketRequest] = []
        /// Start also nodes that a quorum recovery gave up, whose documents are then deleted.
        var discards = false
    }

    /// The result of a start.
    struct Outcome {
        let cluster: RememberedCluster
        let startedNodes: Int
        var buckets: [BucketStatus]
        /// Sentences about what was ordered and not done.
        let undone: [String]
    }

    func start(_ order: Order) throws -> Outcome {
        var cluster = try resolve(order)
        var undone: [String] = []
        let count = cluster.nodes.count
        if let wanted = order.nodes, wanted != count {
            let cure = wanted > count ? "cluster/add adds one" : "cluster/remove removes one"
            undone.append("The cluster has \(nodeCount(count)), not \(wanted): \(cure).")
        }
        let behind = order.discards ? [] : try NodeDirectory.behind(cluster, checkout)
        let first = Set(cluster.nodes.map(\.index)).subtracting(behind)
        var started = try run(&cluster, only: first)
        do {
            let members = try behind.isEmpty ? [] : Topology(admin: admin(of: cluster)).members
            let ports = Set(members.compactMap(\.port))
            // A survivor of the quorum recovery that was down is still a member.
            let survivors = cluster.nodes.filter {
                behind.contains($0.index) && ports.contains($0.ports.admin)
            }
            started += try run(&cluster, only: Set(survivors.map(\.index)))
            let given = cluster.nodes.filter {
                behind.contains($0.index) && !ports.contains($0.ports.admin)
            }
            undone += given.map { NodeDirectory.refusal(ofStarting: $0, in: cluster.directory) }
            let statuses = try makeServe(cluster, order.buckets, &undone)
            servers.keep()
            return Outcome(
                cluster: cluster,
                startedNodes: started,
                buckets: statuses,
                undone: undone
            )
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
        _ buckets: [BucketRequest],
        _ undone: inout [String]
    ) throws -> [BucketStatus] {
        let admin = try admin(of: cluster)
        let provisioning = Provisioning(admin: admin, nodeCount: cluster.nodes.count)
        try provisioning.provision()
        let topology = Topology(admin: admin)
        try gather(cluster.runningNodes, topology)
        undone += try provisioning.create(buckets)
        let members = try topology.members
        let active = Set(members.filter(\.isActive).compactMap(\.port))
        for node in cluster.runningNodes where !active.contains(node.ports.admin) {
            let isToGo = members.first { $0.port == node.ports.admin }?.isToGo ?? false
            note(
                isToGo
                    ? "Node \(node.index) was failed over and serves nothing: cluster/recover "
                        + "\(node.index) recovers it, cluster/rebalance removes it."
                    : "Node \(node.index) serves nothing yet: cluster/rebalance moves data to it."
            )
        }
        let serving = cluster.runningNodes.filter { active.contains($0.ports.admin) }
        return try provisioning.awaitServing(kvPorts: serving.map(\.ports.kv))
    }

    /// Starts the named nodes that do not run, and waits until they listen.
    ///
    /// - Returns: The number of nodes started.
    /// - Throws: `Refusal` if a node does not become ready; then all started nodes are stopped.
    @discardableResult
    func run(_ cluster: inout RememberedCluster, only wanted: Set<Int>) throws -> Int {
        do {
            return try startAll(&cluster, wanted)
        } catch {
            servers.stop()
            throw error
        }
    }

    private func startAll(
        _ cluster: inout RememberedCluster,
        _ wanted: Set<Int>
    ) throws -> Int {
        let program = try checkout.program("divan-server")
        try makeDirectory(cluster.directory)
        var started: [Int] = []
        for (place, node) in cluster.nodes.enumerated()
        where wanted.contains(node.index) && node.process?.isRunning != true {
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
    private func resolve(_ order: Order) throws -> RememberedCluster {
        let remembered = try memory.load()
        let wanted = order.directory.map { URL(filePath: $0).standardizedFileURL.path }
        if let remembered, let wanted, wanted != remembered.directory,
            !remembered.runningNodes.isEmpty
        {
            throw Refusal(
                "This checkout's cluster runs in \(remembered.directory) already.",
                cure: "Stop it first: cluster/stop"
            )
        }
        let directory = wanted ?? remembered?.directory ?? checkout.defaultDirectory
        var known = remembered
        if directory != remembered?.directory {
            if let remembered { try memory.setAside(remembered) }
            known = try memory.load(of: directory)
        }
        guard var cluster = known else {
            let fresh = (0..<(order.nodes ?? order.newNodes)).map { index in
                let ports = NodePorts(node: index, offset: order.portOffset ?? 0)
                return RememberedNode(index: index, ports: ports, process: nil)
            }
            return RememberedCluster(directory: directory, nodes: fresh)
        }
        if let offset = order.portOffset {
            for place in cluster.nodes.indices
            where cluster.nodes[place].process?.isRunning != true {
                let index = cluster.nodes[place].index
                cluster.nodes[place].ports = NodePorts(node: index, offset: offset)
            }
        }
        return cluster
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

/// A number of nodes, as words.
func nodeCount(_ count: Int) -> String { count == 1 ? "1 node" : "\(count) nodes" }

/// The last lines of a log, indented.
func lastLines(of path: String, count: Int) -> String {
    let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
    let lines = text.split(separator: "\n").suffix(count)
    return lines.isEmpty ? "    (empty)" : lines.map { "    " + $0 }.joined(separator: "\n")
}
