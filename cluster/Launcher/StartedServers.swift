internal import Bytes
internal import Foundation
internal import LinuxPlatform

/// The servers that a command has started: if the command fails before `keep()`, or is interrupted
/// (Ctrl-C, SIGTERM, a closed terminal), they are stopped.
///
/// Signals are handled on a thread of their own, because the command may wait for a node meanwhile.
/// That thread holds the lock until the launcher ends: from then on the command starts nothing
/// more, and writes nothing into `cluster.json`.
final class StartedServers: Sendable {
    private struct State {
        var started: [(node: Int, process: ServerProcess)] = []
        /// The content of `cluster.json` after the servers are stopped; nil for no file.
        var fallback: RememberedCluster?
        var isKept = false
    }

    private static let stopTimeoutSeconds = 60.0
    /// Of one node's log and the part before it.
    private static let logMegabytesMax = 64

    private let memory: ClusterMemory
    private let state: Guarded<State>
    private let watch: SignalWatch

    /// - Parameter memory: The stored cluster; after a failure its present content is restored.
    /// - Throws: `Refusal` if it cannot be read.
    init(_ memory: ClusterMemory) throws {
        let state = Guarded(State(fallback: try memory.load()))
        self.memory = memory
        self.state = state
        watch = SignalWatch { StartedServers.interrupt($0, state, memory) }
    }

    /// The numbers of the started nodes, as words; nil if there are none.
    var names: String? {
        state.withLock { state in state.started.isEmpty ? nil : Self.names(state) }
    }

    /// Starts a node's server.
    ///
    /// - Throws: `Refusal` if the system does not start the program.
    func start(_ program: String, _ node: RememberedNode, in directory: String) throws
        -> ServerProcess
    {
        try state.withLock { state in
            let process = try ServerProcess.start(
                program,
                arguments: [
                    "--data", node.dataDirectory(in: directory),
                    "--kv-port", String(node.ports.kv), "--admin-port", String(node.ports.admin),
                    "--views-port", String(node.ports.views),
                    "--peer-port", String(node.ports.peer),
                    "--kv-tls-port", String(node.ports.kvTLS),
                    "--admin-tls-port", String(node.ports.adminTLS),
                    "--views-tls-port", String(node.ports.viewsTLS),
                    "--log-limit", String(Self.logMegabytesMax),
                ],
                output: node.readyFile(in: directory),
                log: node.logFile(in: directory)
            )
            state.started.append((node.index, process))
            return process
        }
    }

    /// Stores a cluster whose servers this command may still stop.
    ///
    /// - Parameters:
    ///   - cluster: The cluster, with the started servers.
    ///   - isToStay: Whether its nodes stay stored, without their processes, after they are
    ///     stopped: true once they are ready, because their data then belongs to this cluster.
    /// - Throws: An error of the file system.
    func store(_ cluster: RememberedCluster, isToStay: Bool = false) throws {
        try state.withLock { state in
            try memory.store(cluster)
            guard isToStay else { return }
            let stopped = Set(state.started.map(\.node))
            var fallback = cluster
            for place in fallback.nodes.indices where stopped.contains(fallback.nodes[place].index)
            {
                fallback.nodes[place].process = nil
            }
            state.fallback = fallback
        }
    }

    /// Keeps the servers: a later failure does not stop them.
    func keep() { state.withLock { $0.isKept = true } }

    /// Stops the started servers; an error in doing so is only printed, because the command reports
    /// the failure that ended it.
    ///
    /// - Parameter cluster: The cluster to remember then; nil restores the previous one.
    func stop(restoring cluster: RememberedCluster? = nil) {
        state.withLock { state in
            if let cluster { state.fallback = cluster }
            Self.stop(&state, memory)
        }
    }

    private static func stop(_ state: inout State, _ memory: ClusterMemory) {
        guard !state.isKept, !state.started.isEmpty else { return }
        do {
            try end(&state)
            try memory.restore(state.fallback)
        } catch {
            note("\(error)")
        }
    }

    private static func end(_ state: inout State) throws {
        note("Stopping what this command started: \(names(state)).")
        // All at once, so that they flush at the same time.
        for (_, process) in state.started { process.signal(SIGTERM) }
        for (node, process) in state.started where !process.awaitEnd(seconds: stopTimeoutSeconds) {
            note("Node \(node) did not end within \(Int(stopTimeoutSeconds)) seconds: killing it.")
            try process.kill()
        }
        state.started = []
    }

    private static func names(_ state: State) -> String {
        let numbers = state.started.map { String($0.node) }
        return numbers.count == 1
            ? "node \(numbers[0])" : "nodes " + numbers.joined(separator: ", ")
    }

    private static func interrupt(
        _ number: Int32,
        _ state: Guarded<State>,
        _ memory: ClusterMemory
    ) {
        // The next signal ends the launcher at once: `stop` sends every server its SIGTERM first.
        for ending in SignalWatch.endings { Foundation.signal(ending, SIG_DFL) }
        state.withLock { state in
            if !state.isKept, !state.started.isEmpty { note("Interrupted.") }
            stop(&state, memory)
            // The exit status shows the shell that the signal ended the command.
            raise(number)
        }
    }
}
