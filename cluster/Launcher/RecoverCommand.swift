internal import ArgumentParser
internal import Foundation

/// `recover`: a node that was failed over serves again.
struct RecoverCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recover",
        abstract: "Bring a node back that was failed over, and rebalance.",
        discussion: """
            The node keeps its documents, and only the changes that were made meanwhile are copied to \
            it. With --full it begins empty, and everything is copied.
            """
    )

    @Argument(help: "The node's number, from 0.")
    var node: Int

    @Flag(help: "Delete the node's documents first, and copy all from the other nodes.")
    var full = false

    /// A node that was just started needs a moment until the others reach it.
    private static let healthTimeoutSeconds = 30.0

    func run() throws {
        let memory = try ClusterMemory(Checkout())
        let cluster = try runningCluster(memory)
        let failed = try cluster.node(node)
        guard failed.process?.isRunning == true else {
            throw Refusal("Node \(node) does not run.", cure: "cluster/start starts it.")
        }
        let topology = try cluster.topology(except: node)
        guard try !topology.member(failed).isActive else {
            throw Refusal("Node \(node) was not failed over: there is nothing to recover.")
        }
        let deadline = Deadline(seconds: Self.healthTimeoutSeconds)
        while try topology.member(failed).status != "healthy" {
            guard !deadline.hasPassed else {
                throw Refusal(
                    "The other nodes do not reach node \(node).",
                    cure: "Its log has the reason: cluster/logs \(node)"
                )
            }
            pause(milliseconds: 50)
        }
        try topology.setRecovery(topology.member(failed), isFull: full)
        try topology.rebalance()
        guard try topology.member(failed).isActive else {
            throw Refusal(
                "The rebalance was stopped before node \(node) served again.",
                cure: "cluster/rebalance continues it."
            )
        }
        try topology.requireBalance()
        print("Node \(node) is recovered\(full ? ", with new copies of all documents" : "").")
    }
}
