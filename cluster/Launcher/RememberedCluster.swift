internal import Foundation

/// What the launcher remembers between two commands, in `.divan/cluster.json`.
struct RememberedCluster: Codable {
    /// Where the nodes keep their data and logs.
    var directory: String
    var nodes: [RememberedNode]

    /// The nodes whose processes run.
    var runningNodes: [RememberedNode] { nodes.filter { $0.process?.isRunning == true } }

    func node(_ index: Int) throws -> RememberedNode {
        guard let node = nodes.first(where: { $0.index == index }) else {
            let known = nodes.map { String($0.index) }.joined(separator: ", ")
            throw Refusal("There is no node \(index).", cure: "The nodes are: \(known).")
        }
        return node
    }
}

/// One node: its ports, its place, and the process that serves it, if any.
struct RememberedNode: Codable {
    let index: Int
    var ports: NodePorts
    var process: ServerProcess?

    func dataDirectory(in directory: String) -> String { "\(directory)/node-\(index)" }
    func logFile(in directory: String) -> String { "\(directory)/node-\(index).log" }
    func readyFile(in directory: String) -> String { "\(directory)/node-\(index).ready" }
}

/// The ports of a node: each node adds 100 to those of the one before.
struct NodePorts: Codable {
    var kv: Int
    var admin: Int
    var views: Int
    /// For the other nodes.
    var peer: Int

    init(node index: Int, offset: Int) {
        let added = 100 * index + offset
        kv = 11_210 + added
        admin = 8_091 + added
        views = 8_092 + added
        peer = 21_100 + added
    }

    /// What an earlier release remembered has no port for other nodes.
    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        kv = try values.decode(Int.self, forKey: .kv)
        admin = try values.decode(Int.self, forKey: .admin)
        views = try values.decode(Int.self, forKey: .views)
        peer = try values.decodeIfPresent(Int.self, forKey: .peer) ?? kv - 11_210 + 21_100
    }

    /// Ports for one more node, as far from those of another one as their numbers are.
    init(node index: Int, like other: RememberedNode?) {
        let usual = other.map { NodePorts(node: $0.index, offset: 0) }
        let offset = other.map { $0.ports.admin - (usual?.admin ?? $0.ports.admin) } ?? 0
        self.init(node: index, offset: offset)
    }
}

/// The launcher's memory, held by one command at a time.
///
/// Two commands at once would both start node 0, or forget each other's processes: whoever opens
/// the memory holds its lock until it ends. Whoever only reads needs none: what is written comes
/// whole.
final class ClusterMemory: Sendable {
    private let path: String
    private let lock: Int32

    /// - Parameters:
    ///   - checkout: Whose cluster it is.
    ///   - isRead: The command changes nothing of it, and works beside one that does.
    /// - Throws: `Refusal` where the checkout cannot be written to.
    init(_ checkout: Checkout, isRead: Bool = false) throws {
        try FileManager.default.createDirectory(
            atPath: checkout.memory,
            withIntermediateDirectories: true
        )
        path = checkout.memory + "/cluster.json"
        lock = open(checkout.memory + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
        guard lock >= 0 else {
            throw Refusal("Cannot write in \(checkout.memory): \(systemError()).")
        }
        if !isRead, flock(lock, LOCK_EX | LOCK_NB) != 0 {
            note("Another cluster command runs; waiting for it to end.")
            flock(lock, LOCK_EX)
        }
    }

    deinit { close(lock) }

    func load() throws -> RememberedCluster? {
        guard let data = FileManager.default.contents(atPath: path) else { return nil }
        do {
            return try JSONDecoder().decode(RememberedCluster.self, from: data)
        } catch {
            throw Refusal(
                "\(path) does not say which cluster runs: \(error).",
                cure: "Look for running servers (pgrep divan-server), then remove the file."
            )
        }
    }

    /// Remembers what was remembered before: nil for nothing.
    func restore(_ cluster: RememberedCluster?) throws {
        if let cluster { return try store(cluster) }
        if unlink(path) != 0, errno != ENOENT {
            throw Refusal("Cannot remove \(path): \(systemError()).")
        }
    }

    func store(_ cluster: RememberedCluster) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try encoder.encode(cluster).write(to: URL(filePath: path), options: .atomic)
    }
}

/// Words for the person at the terminal that are no result.
func note(_ text: String) {
    // Where the terminal was closed there is nothing to write to: the command goes on.
    try? FileHandle.standardError.write(contentsOf: Data((text + "\n").utf8))
}

/// What the system call that just failed says about it.
func systemError(_ code: Int32 = errno) -> String { String(cString: strerror(code)) }
