internal import Bytes

/// One process on a host: its lanes, connections, ports and open files, which end together.
///
/// - A dead process has no observable effect. If its code is still on the stack (a crash in the
///   middle of a commit), its disk operations fail and its output is not sent.
final class SimulatedProcess: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    let host: SimulatedHost
    let queue: RunQueue
    /// Counts the starts on this host, from 1.
    let number: Int
    let quiescence: Quiescence
    private(set) var isDead = false
    private(set) var isFrozen = false
    /// Whether the process is stopping and opens no more connections.
    private(set) var hasLeftNetwork = false
    private(set) var reactors: [SimulatedLane] = []
    let outputs: [ByteWriter]
    /// The number of connections of each reactor.
    var loads: [Int]
    var listeners: [SimulatedListener] = []
    private var lanes: [SimulatedLane] = []
    private var connections: [SimulatedConnection] = []
    private var parked: [SimulatedLane] = []
    var pendingStop: PendingStop?
    /// The work item in which the process was stopped, and for how long.
    var stop: (step: UInt64, nanoseconds: UInt64)?
    /// The observable effects of that work item, which occur when the process continues.
    private var deferred: [() -> Void] = []

    init(host: SimulatedHost, queue: RunQueue, number: Int) {
        self.host = host
        self.queue = queue
        self.number = number
        let count = host.reactorCount
        quiescence = Quiescence(reactorCount: count)
        outputs = (0..<count).map { _ in ByteWriter(capacity: 4_096) }
        loads = Array(repeating: 0, count: count)
        reactors = (0..<count).map {
            SimulatedLane("reactor \($0)", process: self, reactor: $0)
        }
    }

    // MARK: Lanes

    func makeLane(_ name: String) -> SimulatedLane {
        let lane = SimulatedLane(name, process: self)
        if !isDead { lanes.append(lane) }
        return lane
    }

    func remove(_ lane: SimulatedLane) { lanes.removeAll { $0 === lane } }

    /// Keeps a lane with work until the process continues.
    func park(_ lane: SimulatedLane) { parked.append(lane) }

    /// Adds this time to each work item of the lanes whose names have the prefix.
    func drag(_ prefix: String, by nanoseconds: UInt64) {
        for lane in lanes + reactors where lane.name.hasPrefix(prefix) { lane.drag = nanoseconds }
    }

    func changeDiskSlowness(to slowness: UInt64, from before: UInt64) {
        for lane in lanes + reactors { lane.changeDiskSlowness(to: slowness, from: before) }
    }

    func freeze() { isFrozen = true }

    func thaw() {
        guard isFrozen else { return }
        isFrozen = false
        let effects = deferred
        deferred = []
        for effect in effects { effect() }
        let lanes = parked
        parked = []
        for lane in lanes { lane.resume() }
    }

    /// Runs `effect` when the process continues.
    func deferUntilThaw(_ effect: @escaping () -> Void) { deferred.append(effect) }

    // MARK: Connections

    /// Chooses the reactor with the fewest connections and counts the new connection.
    func placeConnection() -> Int {
        var best = 0
        for (index, load) in loads.enumerated() where load < loads[best] { best = index }
        loads[best] += 1
        return best
    }

    func add(_ connection: SimulatedConnection) { connections.append(connection) }

    func remove(_ connection: SimulatedConnection) {
        guard let index = connections.firstIndex(where: { $0 === connection }) else { return }
        connections.swapAt(index, connections.count - 1)
        connections.removeLast()
    }

    var openConnections: [SimulatedConnection] { connections }

    // MARK: The end

    /// Closes all ports and connections while the lanes keep running, as a stopping process does.
    func leaveNetwork() {
        let ended = connections
        hasLeftNetwork = true
        listeners = []
        for connection in ended { connection.abandon() }
    }

    /// Ends the process: drops its work and closes its connections.
    ///
    /// - Parameter isSilent: Whether the machine lost its power, so that peers are not notified;
    ///   otherwise its kernel closes the connections.
    func die(isSilent: Bool) {
        guard !isDead else { return }
        isDead = true
        let (ended, dropped) = (connections, lanes + reactors)
        connections = []
        lanes = []
        parked = []
        deferred = []
        listeners = []
        for connection in ended { connection.processDied(isSilent: isSilent) }
        for lane in dropped { lane.drop() }
        // Breaks the reference cycle between process and reactors.
        reactors = []
    }
}
