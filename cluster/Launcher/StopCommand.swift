internal import ArgumentParser
internal import Foundation

/// `stop`: nodes flush their documents first, which may take a while; no running node is no error.
struct StopCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stop",
        abstract: "Stop the cluster; its documents stay."
    )

    @Option(help: "Seconds to wait for a node before it is killed.")
    var patience = 60.0

    func run() throws {
        let memory = try ClusterMemory(Checkout())
        guard var cluster = try memory.load(), !cluster.runningNodes.isEmpty else {
            print("No cluster runs.")
            return
        }
        // All at once, so that they flush at the same time.
        for node in cluster.runningNodes { node.process?.signal(SIGTERM) }
        for (place, node) in cluster.nodes.enumerated() {
            if let process = node.process, !process.awaitEnd(seconds: patience) {
                note("Node \(node.index) did not end within \(Int(patience)) seconds: killing it.")
                try process.kill()
            }
            cluster.nodes[place].process = nil
        }
        try memory.store(cluster)
        print("Stopped. The documents are in \(cluster.directory).")
    }
}
