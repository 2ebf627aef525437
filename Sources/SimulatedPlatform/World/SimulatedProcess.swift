internal import Bytes
internal import Seams

/// One run of a program on a host: its lanes, connections, ports and open files, gone together.
///
/// - Once dead it does nothing that anybody could notice. What of its code is still on the stack (a
///   crash in the middle of a commit) meets a disk that fails and a network that says nothing.
final class SimulatedProcess: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    let host: SimulatedHost
    let queue: RunQueue
    /// Counts the starts on this host, from 1.
    let number: Int
    let quiescence: Quiescence
    private(set) var isDead = false
    private(set) var isFrozen = false
    /// It is stopping: it connects to nobody any more.
    private(set) var hasLeftNetwork = false
    private(set) var reactors: [SimulatedLane] = []
    let outputs: [ByteWriter]
    /// How many connections each reactor has.
    var loads: [Int]
    var listeners: [SimulatedListener] = []
    private var lanes: [SimulatedLane] = []
    private var connections: [SimulatedConnection] = []
    private var parked: [SimulatedLane] = []
    var pendingStop: PendingStop?
    /// The piece of work in which it was stopped, and for how long.
    var stop: (step: UInt64, nanoseconds: UInt64)?
    /// What is left of that piece, in the eyes of others.
    private var late: [() -> Void] = []

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

    func forget(_ lane: SimulatedLane) { lanes.removeAll { $0 === lane } }

    func park(_ lane: SimulatedLane) { parked.append(lane) }

    /// Every piece of work on lanes with such a name takes so much longer.
    func drag(_ prefix: String, by nanoseconds: UInt64) {
        for lane in lanes + reactors where lane.name.hasPrefix(prefix) { lane.drag = nanoseconds }
    }

    func diskBecame(_ slowness: UInt64, insteadOf before: UInt64) {
        for lane in lanes + reactors { lane.diskBecame(slowness, insteadOf: before) }
    }

    func freeze() { isFrozen = true }

    func thaw() {
        guard isFrozen else { return }
        isFrozen = false
        let said = late
        late = []
        for rest in said { rest() }
        let lanes = parked
        parked = []
        for lane in lanes { lane.resume() }
    }

    /// Something is seen by others as soon as the process goes on.
    func sayLate(_ rest: @escaping () -> Void) { late.append(rest) }

    // MARK: Connections

    /// The reactor with the fewest connections; its load counts the coming one.
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

    /// Closes every port and connection while the lanes work on, as a program does that stops.
    func leaveNetwork() {
        let ended = connections
        hasLeftNetwork = true
        listeners = []
        for connection in ended { connection.abandon() }
    }

    /// Nothing of this process happens any more.
    ///
    /// - Parameter isSilent: The machine lost its power, so that nobody is told of the end of
    ///   connections; else its kernel closes them.
    func die(isSilent: Bool) {
        guard !isDead else { return }
        isDead = true
        let (ended, dropped) = (connections, lanes + reactors)
        connections = []
        lanes = []
        parked = []
        late = []
        listeners = []
        for connection in ended { connection.processDied(isSilent: isSilent) }
        for lane in dropped { lane.drop() }
        // The reactors name their process: kept, they would keep it for ever.
        reactors = []
    }
}
