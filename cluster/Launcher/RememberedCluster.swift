internal import Foundation
internal import LinuxPlatform
internal import Seams

/// The memory of the launcher between two commands: `.divan/cluster.json`.
struct RememberedCluster: Codable {
    /// The directory of the nodes' data and logs.
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

/// One node: its number, its ports, and its process, if it runs.
struct RememberedNode: Codable {
    let index: Int
    var ports: NodePorts
    var process: ServerProcess?

    func dataDirectory(in directory: String) -> String { "\(directory)/node-\(index)" }
    func logFile(in directory: String) -> String { "\(directory)/node-\(index).log" }
    func readyFile(in directory: String) -> String { "\(directory)/node-\(index).ready" }

    /// Everything that the node has in the cluster's directory.
    func files(in directory: String) -> [String] {
        let log = logFile(in: directory)
        return [dataDirectory(in: directory), readyFile(in: directory), log, log + ".1"]
    }
}

/// The ports of a node: each is 100 above that of the node before.
struct NodePorts: Codable {
    var kv: Int
    var admin: Int
    var views: Int
    /// For the other nodes.
    var peer: Int
    var kvTLS: Int
    var adminTLS: Int
    var viewsTLS: Int

    init(node index: Int, offset: Int) {
        let added = 100 * index + offset
        kv = 11_210 + added
        admin = 8_091 + added
        views = 8_092 + added
        peer = 21_100 + added
        kvTLS = 11_207 + added
        adminTLS = 18_091 + added
        viewsTLS = 18_092 + added
    }

    /// The ports of one more node, offset from another node's by their numbers.
    init(node index: Int, like other: RememberedNode?) {
        let usual = other.map { NodePorts(node: $0.index, offset: 0) }
        let offset = other.map { $0.ports.admin - (usual?.admin ?? $0.ports.admin) } ?? 0
        self.init(node: index, offset: offset)
    }
}

/// The launcher's memory, locked by one command at a time.
///
/// Two commands at once would both start node 0, or overwrite each other's processes: a command
/// that changes the memory holds its lock until it ends. A command that only reads needs no lock,
/// because the file is replaced as a whole.
final class ClusterMemory: Sendable {
    private let path: String
    private let lock: Int32

    /// - Parameters:
    ///   - checkout: The checkout of the cluster.
    ///   - isRead: The command changes nothing, and may run beside one that does.
    /// - Throws: `Refusal` if the checkout cannot be written to, or other users can write there.
    init(_ checkout: Checkout, isRead: Bool = false) throws {
        try FileManager.default.createDirectory(
            atPath: checkout.memory,
            withIntermediateDirectories: true
        )
        // The files of earlier commands, and those of clusters without `--dir`.
        if !isRead {
            try withheld { () throws(DiskError) in try PrivateFiles.withhold(checkout.memory) }
        }
        path = checkout.memory + "/cluster.json"
        let access = O_RDWR | O_CREAT | O_CLOEXEC
        lock = open(checkout.memory + "/lock", access, PrivateFiles.fileMode)
        guard lock >= 0 else {
            throw Refusal("Cannot write in \(checkout.memory): \(systemError()).")
        }
        if !isRead, flock(lock, LOCK_EX | LOCK_NB) != 0 {
            note("Another cluster command runs; waiting for its end.")
            flock(lock, LOCK_EX)
        }
    }

    deinit { close(lock) }

    func load() throws -> RememberedCluster? { try read(path) }

    /// The cluster of `directory` that was set aside; nil if there is none.
    func load(of directory: String) throws -> RememberedCluster? {
        guard var cluster = try read(directory + "/cluster.json") else { return nil }
        // The directory may have been moved.
        cluster.directory = directory
        return cluster
    }

    private func read(_ path: String) throws -> RememberedCluster? {
        guard let data = FileManager.default.contents(atPath: path) else { return nil }
        do {
            return try JSONDecoder().decode(RememberedCluster.self, from: data)
        } catch {
            throw Refusal(
                "\(path) cannot be read: \(error).",
                cure: "Look for running servers (pgrep divan-server), then remove the file."
            )
        }
    }

    /// Restores the previous content; nil removes the file.
    func restore(_ cluster: RememberedCluster?) throws {
        if let cluster { return try store(cluster) }
        if unlink(path) != 0, errno != ENOENT {
            throw Refusal("Cannot remove \(path): \(systemError()).")
        }
    }

    func store(_ cluster: RememberedCluster) throws { try write(cluster, to: path) }

    /// Stores a stopped cluster in its own directory, because another one takes its place here: a
    /// later start in that directory finds its nodes again.
    func setAside(_ cluster: RememberedCluster) throws {
        guard access(cluster.directory, F_OK) == 0 else { return }
        try write(cluster, to: cluster.directory + "/cluster.json")
    }

    private func write(_ cluster: RememberedCluster, to path: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try encoder.encode(cluster).write(to: URL(filePath: path), options: .atomic)
    }
}

/// Runs a check of who else may use a directory.
///
/// - Throws: `Refusal` with the check's sentence, which has the cure.
func withheld(_ check: () throws(DiskError) -> Void) throws {
    do throws(DiskError) {
        try check()
    } catch {
        throw Refusal(error.description)
    }
}

/// Prints a message to the user that is not a result.
func note(_ text: String) {
    // If the terminal was closed, the message is lost and the command continues.
    try? FileHandle.standardError.write(contentsOf: Data((text + "\n").utf8))
}

/// The error text of the system call that just failed.
func systemError(_ code: Int32 = errno) -> String { String(cString: strerror(code)) }
