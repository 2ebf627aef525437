internal import ArgumentParser
internal import Foundation

/// `logs`: replaces itself with `tail`.
struct LogsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logs",
        abstract: "Show the log of a node."
    )

    @Argument(help: "The node's number, from 0.")
    var node: Int

    @Flag(name: .shortAndLong, help: "Follow the log as it grows.")
    var follow = false

    @Option(name: .shortAndLong, help: "Number of lines.")
    var lines = 40

    func run() throws {
        let checkout = try Checkout()
        guard let cluster = try ClusterMemory(checkout, isRead: true).load() else {
            throw Refusal("No cluster was started yet.", cure: "cluster/start starts one.")
        }
        let log = try cluster.node(node).logFile(in: cluster.directory)
        let arguments = ["tail", "-n", String(lines)] + (follow ? ["-F"] : []) + [log]
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
        words.append(nil)
        execvp("tail", words)
        throw Refusal("Cannot run tail: \(systemError()).", cure: "The log is \(log).")
    }
}
