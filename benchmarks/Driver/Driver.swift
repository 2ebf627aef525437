internal import Bytes
internal import Seams

/// The shared state of the connections of a load test: the current phase and the counts.
///
/// Only the one reactor that serves all connections uses this state; the main thread, which prepares
/// and reports, accesses it through the reactor's lane.
final class Driver: @unchecked Sendable {  // tidy:allow one reactor's thread, reached by its lane
    enum Phase {
        case idle
        case loading
        case running
        case stopping
    }

    let workload: Workload
    let dialect: Dialect
    let documents: Documents
    let environment: Environment
    let account: Login.Account
    let lane: any Lane
    let map: ServerMap
    let scratch = ByteWriter()

    @exclusivity(unchecked) var phase = Phase.idle
    @exclusivity(unchecked) var tally = Tally()
    /// Set when a connection is lost or refused: the test is invalid from then on.
    var failure: BenchError?
    var connections: [DriverConnection] = []
    var readyCount = 0
    var loadedCount = 0
    /// The number of documents stored so far, while loading.
    var loadedDocuments = 0
    var sampler: PersistenceSampler?
    /// Open loop: the greatest delay of sending behind its schedule.
    private(set) var lagMax: UInt64 = 0

    private var nextDue = 0.0
    private var nextConnection = 0

    init(
        _ workload: Workload,
        _ dialect: Dialect,
        _ account: Login.Account,
        map: ServerMap,
        environment: Environment
    ) {
        self.workload = workload
        self.dialect = dialect
        self.account = account
        self.map = map
        self.environment = environment
        documents = Documents(workload)
        lane = environment.network.lane(ofReactor: 0)
    }

    var now: UInt64 { environment.time.monotonicNanoseconds() }

    var wantsTokens: Bool { workload.samplesPersistence }

    func fail(_ error: BenchError) { if failure == nil { failure = error } }

    /// Opens the connections, distributed over the nodes.
    func connect() {
        let nodes = map.nodes
        for number in 0..<workload.connections {
            let node = number % nodes.count
            let share = (workload.connections - node + nodes.count - 1) / nodes.count
            let place = Place(node: node, number: number / nodes.count, of: share)
            environment.network.connect(
                to: nodes[node],
                connected: { port in
                    let connection = DriverConnection(self, place, port: port)
                    self.connections.append(connection)
                    port.wake()
                    return connection
                },
                failed: { self.fail(BenchError($0.description)) }
            )
        }
    }

    /// A connection's number among those to the same node.
    struct Place: Sendable {
        let node: Int
        let number: Int
        let of: Int
    }

    /// Starts the current phase on every connection.
    func begin(_ phase: Phase) {
        self.phase = phase
        loadedCount = 0
        if phase == .running && workload.rate > 0 {
            nextDue = Double(now)
            pace()
        } else {
            for connection in connections { connection.port.wake() }
        }
    }

    func resetTally() {
        tally = Tally()
        lagMax = 0
    }

    // MARK: The open loop

    /// Has connections send due requests in a loop without sleeping: a timer's millisecond is longer
    /// than most answers take.
    private func pace() {
        guard phase == .running else { return }
        let time = now
        let interval = Double(workload.depth) / workload.rate * 1e9
        while nextDue <= Double(time) {
            let due = UInt64(nextDue)
            connections[nextConnection].isDue(at: due)
            lagMax = max(lagMax, time - due)
            nextConnection = (nextConnection + 1) % connections.count
            nextDue += interval
        }
        lane.post { self.pace() }
    }
}
