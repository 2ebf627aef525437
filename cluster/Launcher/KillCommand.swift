internal import ArgumentParser
internal import Foundation

/// `kill`: simulates a crash.
struct KillCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kill",
        abstract: "End a node at once, as a crash would (SIGKILL); start restarts it."
    )

    @Argument(help: "The node's number, from 0.")
    var node: Int

    func run() throws {
        let memory = try ClusterMemory(Checkout(), isRead: true)
        guard let cluster = try memory.load() else {
            throw Refusal("No cluster runs.", cure: "cluster/start starts one.")
        }
        guard let process = try cluster.node(node).process, process.isRunning else {
            throw Refusal("Node \(node) does not run.", cure: "cluster/start restarts it.")
        }
        try process.kill()
        print("Killed node \(node) (process \(process.pid)). cluster/start restarts it.")
    }
}
