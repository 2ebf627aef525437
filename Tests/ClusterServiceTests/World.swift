import Bytes
import ClusterService
import Credentials
import Seams

/// A small world in memory: files that survive a service, a clock and timers moved by hand.
final class World: Sendable {
    let disk = MemoryDisk()
    let time = HandClock()
    let lanes = HandLanes()

    var environment: Environment {
        Environment(
            time: time,
            entropy: SeededEntropy(seed: 7),
            network: NoNetwork(),
            disk: disk,
            lanes: lanes,
            trace: SilentTrace()
        )
    }

    /// Lets a second pass, timers included.
    func passSecond() {
        time.advance(1_000_000_000)
        lanes.runTimers()
    }

    func service(_ plane: RecordingPlane) throws(ClusterError) -> AdministrationService {
        try AdministrationService(
            settings: AdministrationService.Settings(
                directory: "data",
                memoryQuota: 1_000 << 20,
                memoryTotal: 8_192 << 20
            ),
            environment: environment,
            dataPlane: plane,
            passwords: PasswordVerifier(secret: [UInt8](repeating: 7, count: 32))
        )
    }
}

final class MemoryDisk: Disk {
    let files = Guarded<[String: [UInt8]]>([:])
    let isFull = Guarded(false)

    var vfsName: String? { nil }

    func createDirectory(_ path: String) throws(DiskError) {}

    func list(_ path: String) throws(DiskError) -> [String] {
        files.withLock { $0.keys.filter { $0.hasPrefix(path + "/") }.sorted() }
    }

    func read(_ path: String) throws(DiskError) -> [UInt8]? { files.withLock { $0[path] } }

    func replace(_ path: String, with bytes: [UInt8]) throws(DiskError) {
        if isFull.withLock({ $0 }) {
            throw DiskError(code: .full, path: path, description: "no room for \(path)")
        }
        files.withLock { $0[path] = bytes }
    }

    func rename(_ path: String, to newPath: String) throws(DiskError) {
        files.withLock { $0[newPath] = $0.removeValue(forKey: path) }
    }

    func remove(_ path: String) throws(DiskError) {
        files.withLock { _ = $0.removeValue(forKey: path) }
    }

    func claim(_ path: String) throws(DiskError) -> Bool { true }

    func size(_ path: String) throws(DiskError) -> UInt64 {
        UInt64(files.withLock { $0[path]?.count ?? 0 })
    }

    func space(_ path: String) throws(DiskError) -> (free: UInt64, total: UInt64) { (600, 1_000) }
}

final class HandClock: TimeSource {
    private let nanoseconds = Guarded<UInt64>(1_000_000_000)

    func monotonicNanoseconds() -> UInt64 { nanoseconds.withLock { $0 } }

    func wallNanoseconds() -> UInt64 { monotonicNanoseconds() + 1_700_000_000_000_000_000 }

    func advance(_ by: UInt64) { nanoseconds.withLock { $0 += by } }
}

final class SeededEntropy: Entropy {
    private let random: Guarded<SeededRandom>

    init(seed: UInt64) { random = Guarded(SeededRandom(seed: seed)) }

    func next() -> UInt64 { random.withLock { $0.next() } }
}

/// One lane for all: what is posted runs at once, timers when the test says so.
final class HandLanes: LaneFactory {
    private let lane = HandLane()

    var reactorCount: Int { 1 }

    func makeLane(_ name: String, isPatient: Bool) -> any Lane { lane }

    func runTimers() { lane.runTimers() }
}

final class HandLane: Lane {
    private let timers = Guarded<[UInt64: @Sendable () -> Void]>([:])
    private let nextTimer = Guarded<UInt64>(0)
    private let turn = Lock()

    deinit { turn.destroy() }

    var name: String { "hand" }

    /// At once, but one at a time whoever posts.
    func post(_ work: @escaping @Sendable () -> Void) { turn.withLock { work() } }

    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        let id = nextTimer.withLock { next in
            next += 1
            return next
        }
        timers.withLock { $0[id] = work }
        return LaneTimer { [self] in timers.withLock { _ = $0.removeValue(forKey: id) } }
    }

    func stop() {}

    func runTimers() {
        let due = timers.withLock { timers in
            defer { timers = [:] }
            return timers.sorted { $0.key < $1.key }.map(\.value)
        }
        for work in due { work() }
    }
}

struct NoNetwork: Network {
    let quiescence = Quiescence(reactorCount: 1)

    func lane(ofReactor index: Int) -> any Lane { HandLane() }

    func listen(
        on address: SocketAddress,
        accept: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler
    ) throws(NetworkError) -> any Listener {
        throw NetworkError(code: .other, description: "there is no network here")
    }

    func connect(
        to address: SocketAddress,
        connected: @escaping @Sendable (any ConnectionPort) -> any ConnectionHandler,
        failed: @escaping @Sendable (NetworkError) -> Void
    ) {}
}

struct SilentTrace: Trace {
    var threshold: Severity { .fault }

    func tell(_ severity: Severity, _ module: String, _ message: String) {}
}
