internal import Foundation

/// The identity of a node as its data directory has it, read without starting the node.
///
/// A node that a quorum recovery (`failOver` with `allowUnsafe`) gave up deletes its documents as
/// soon as it runs and learns of that. So its directory must be recognised before its server is started.
struct NodeDirectory: Decodable {
    /// Nil for a node without a cluster.
    let cluster: String?
    /// The number of quorum recoveries of the cluster that the node knows of, plus one.
    let epoch: UInt64

    /// The numbers of nodes that do not run and whose directories do not know of the cluster's last
    /// quorum recovery: they were given up, or are survivors that were down.
    ///
    /// - Throws: `Refusal` if the server program is missing.
    static func behind(_ cluster: RememberedCluster, _ checkout: Checkout) throws -> Set<Int> {
        guard cluster.nodes.count > 1 else { return [] }
        let program = try checkout.program("divan-server")
        var known: [(node: RememberedNode, directory: NodeDirectory)] = []
        for node in cluster.nodes {
            let path = node.dataDirectory(in: cluster.directory)
            guard access(path + "/control.sqlite", F_OK) == 0,
                let directory = try read(path, by: program), directory.cluster != nil
            else { continue }
            known.append((node, directory))
        }
        guard let last = known.map(\.directory).max(by: { $0.epoch < $1.epoch }) else { return [] }
        let behind = known.filter {
            $0.node.process?.isRunning != true && $0.directory.cluster == last.cluster
                && $0.directory.epoch < last.epoch
        }
        return Set(behind.map(\.node.index))
    }

    /// Why a node that was given up is not started, and what to do.
    static func refusal(ofStarting node: RememberedNode, in directory: String) -> String {
        let data = node.dataDirectory(in: directory)
        return "Node \(node.index) was not started: a quorum recovery gave it up, and it would "
            + "delete its documents. If no other node has them, copy \(data) and read the copy by "
            + "divan-server --dump. Then cluster/start --discard adds it as a new node."
    }

    /// Nil if the directory cannot be read: its server reports the cause when it is started.
    private static func read(_ path: String, by program: String) throws -> NodeDirectory? {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(filePath: program)
        process.arguments = ["--identity", path]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let line = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { return nil }
        return try? JSONDecoder().decode(NodeDirectory.self, from: line)
    }
}
