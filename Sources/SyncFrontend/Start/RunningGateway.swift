internal import ScriptProcesses
internal import Seams
internal import SyncService

/// A gateway with its threads and script processes, until it is stopped.
package struct RunningGateway: Sendable {
    let lane: EventLoopLane
    let server: GatewayServer
    let databases: GatewayDatabases
    let scripts: ScriptPool
    let passwordLane: any Lane

    /// Closes listeners and connections, and ends the script processes, before the process ends; not called on its
    /// lane.
    package func stop() {
        server.stop()
        lane.post { [databases] in databases.stop() }
        scripts.stop()
        lane.end()
        passwordLane.stop()
    }
}
