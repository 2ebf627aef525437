import Bytes
import ClusterService
import Credentials
import Foundation
import OpenSSLPlatform
import Seams

/// A small world in memory: files that outlive a service, a clock and timers moved by hand.
final class World: Sendable {
    let root = "\(World.place)/divan-world-\(UUID().uuidString)"
    let disk = MemoryDisk()
    /// Shared by all starts of a service: each start has another random number.
    let entropy: SeededEntropy
    let time = HandClock()
    let lanes = HandLanes()
    let network = NoNetwork()

    var environment: Environment {
        var environment = Environment(
            time: time,
            entropy: entropy,
            network: network,
            disk: disk,
            lanes: lanes,
            trace: trace,
            children: NoChildren()
        )
        environment.security = OpenSSLSecurity()
        return environment
    }

    private let trace: any Trace

    init(seed: UInt64 = 7, trace: any Trace = SilentTrace()) {
        entropy = SeededEntropy(seed: seed)
        self.trace = trace
    }

    /// In memory, if possible: these tests check content, not speed.
    private static var place: String {
        FileManager.default.isWritableFile(atPath: "/dev/shm")
            ? "/dev/shm" : FileManager.default.temporaryDirectory.path
    }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    /// Lets a second pass, and runs timers.
    func passSecond() {
        time.advance(1_000_000_000)
        lanes.runTimers()
    }

    func service(
        _ plane: RecordingPlane,
        probe: any NodeProbe = UnreachableProbe(),
        scripts: (any ScriptCheck)? = nil
    ) throws(ClusterError) -> AdministrationService {
        var settings = AdministrationService.Settings(
            directory: root,
            memoryQuota: 1_000 << 20,
            memoryTotal: 8_192 << 20
        )
        settings.scripts = scripts
        return try AdministrationService(
            settings: settings,
            environment: environment,
            dataPlane: plane,
            passwords: PasswordVerifier(secret: [UInt8](repeating: 7, count: 32)),
            probe: probe
        )
    }
}

final class MemoryDisk: Disk {
    let files = Guarded<[String: [UInt8]]>([:])

    var vfsName: String? { nil }

    /// For SQLite, whose files are on a real disk.
    func createDirectory(_ path: String) throws(DiskError) {
        try PlainDisk().createDirectory(path)
    }

    func list(_ path: String) throws(DiskError) -> [String] {
        files.withLock { $0.keys.filter { $0.hasPrefix(path + "/") }.sorted() }
    }

    func read(_ path: String) throws(DiskError) -> [UInt8]? { files.withLock { $0[path] } }

    func replace(_ path: String, with bytes: [UInt8]) throws(DiskError) {
        files.withLock { $0[path] = bytes }
    }

    func rename(_ path: String, to newPath: String) throws(DiskError) {
        files.withLock { $0[newPath] = $0.removeValue(forKey: path) }
    }

    func remove(_ path: String) throws(DiskError) {
        files.withLock { _ = $0.removeValue(forKey: path) }
    }

    /// Writes never fail here.
    func rewriteDurably(_ path: String) throws(DiskError) {}
    func lockDirectory(_ path: String) throws(DiskError) -> Bool { true }

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

/// One lane for all: posted work runs at once, in order; timers run when the test says so.
final class HandLanes: LaneFactory {
    private let lane = HandLane()

    var reactorCount: Int { 1 }

    func makeLane(_ name: String, isPatient: Bool) -> any Lane { lane }

    func runTimers() { lane.runTimers() }

    /// How many timers of this duration are set.
    func timerCount(nanoseconds: UInt64) -> Int { lane.timerCount(nanoseconds: nanoseconds) }
}

final class HandLane: Lane {
    private struct Timer: Sendable {
        let nanoseconds: UInt64
        let work: @Sendable () -> Void
    }

    private let timers = Guarded<[UInt64: Timer]>([:])
    private let nextTimer = Guarded<UInt64>(0)
    private let works = Guarded<(waiting: [@Sendable () -> Void], isRunning: Bool)>(([], false))

    var name: String { "hand" }

    /// Runs work at once, after the work that already runs.
    func post(_ work: @escaping @Sendable () -> Void) {
        let isFirst = works.withLock { works in
            works.waiting.append(work)
            defer { works.isRunning = true }
            return !works.isRunning
        }
        guard isFirst else { return }
        while let next = takeNext() { next() }
    }

    private func takeNext() -> (@Sendable () -> Void)? {
        works.withLock { works in
            guard !works.waiting.isEmpty else {
                works.isRunning = false
                return nil
            }
            return works.waiting.removeFirst()
        }
    }

    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        let id = nextTimer.withLock { next in
            next += 1
            return next
        }
        timers.withLock { $0[id] = Timer(nanoseconds: nanoseconds, work: work) }
        return LaneTimer { [self] in timers.withLock { _ = $0.removeValue(forKey: id) } }
    }

    func stop() {}

    func timerCount(nanoseconds: UInt64) -> Int {
        timers.withLock { timers in timers.values.count { $0.nanoseconds == nanoseconds } }
    }

    func runTimers() {
        let due = timers.withLock { timers in
            defer { timers = [:] }
            return timers.sorted { $0.key < $1.key }.map(\.value.work)
        }
        for work in due { post(work) }
    }
}

struct NoNetwork: Network {
    let quiescence = Quiescence(reactorCount: 1)
    let memory = ConnectionMemory(
        receive: ReceiveMemory(bytesMax: 64 << 20, claimBytesMax: 30 << 20, readAheadBytes: 0),
        keptBytesMax: 64 << 20
    )
    let strangers = Strangers()
    /// Addresses by host name; IP addresses resolve to themselves.
    let names = Guarded<[String: [String]]>([:])

    func resolve(
        _ host: String,
        _ done: @escaping @Sendable (Result<[String], NetworkError>) -> Void
    ) {
        let isName = host.contains { $0.isLetter && !$0.isHexDigit }
        let found = names.withLock { $0[host] } ?? (isName ? [] : [host])
        let unknown = NetworkError(code: .unknownHost, description: "there is no \(host)")
        done(found.isEmpty ? .failure(unknown) : .success(found))
    }

    func lane(ofReactor index: Int) -> any Lane { HandLane() }

    func listen(
        on address: SocketAddress,
        for callers: Callers,
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

/// Keeps what is logged.
final class KeptTrace: Trace {
    private let kept = Guarded<[String]>([])

    var threshold: Severity { .info }

    /// Everything of a module.
    func lines(of module: String) -> [String] {
        kept.withLock { $0.filter { $0.hasPrefix("\(module): ") } }
    }

    func log(_ severity: Severity, _ module: String, _ message: String) {
        kept.withLock { $0.append("\(module): \(message)") }
    }
}

struct SilentTrace: Trace {
    var threshold: Severity { .fault }

    func log(_ severity: Severity, _ module: String, _ message: String) {}
}

/// No other node answers.
struct UnreachableProbe: NodeProbe {
    func ask(_ request: ProbeRequest) async -> ProbeAnswer { .unreachable("no node answers") }
}

extension AdministrationService {
    /// Whether these are the administrator's name and password.
    func isAdministrator(_ user: String, _ password: String) -> Bool {
        if case .administrator = login(user, password) { true } else { false }
    }
}
