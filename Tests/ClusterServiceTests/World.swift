import Bytes
import ClusterService
import Credentials
import Foundation
import OpenSSLPlatform
import Orchestration
import Seams
import TestSupport

/// A small world: files that outlive a service, a clock and timers that the test moves.
final class World: Sendable {
    let root = "\(World.place)/divan-world-\(UUID().uuidString)"
    let disk = FileDisk()
    /// Shared by all starts of a service: each start has another random number.
    let entropy: SeededEntropy
    let time = ManualTime()
    let lanes: ManualLanes
    let network: NoNetwork

    var environment: Environment {
        var environment = Environment.doubles(
            time: time,
            entropy: entropy,
            network: network,
            disk: disk,
            lanes: lanes,
            trace: trace
        )
        environment.security = OpenSSLSecurity()
        return environment
    }

    private let trace: any Trace

    init(seed: UInt64 = 7, trace: any Trace = RecordingTrace(threshold: .fault)) {
        entropy = SeededEntropy(seed: seed)
        lanes = ManualLanes(time: time, runsPostedAtOnce: true)
        // The timers of the reactor never run.
        let reactors = ManualLanes(time: time, runsPostedAtOnce: true)
        network = NoNetwork(lane: reactors.makeLane("reactor"))
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
        time.advance(by: 1_000_000_000)
        lanes.runTimers()
    }

    func service(
        _ plane: RecordingPlane,
        probe: any NodeProbe = UnreachableProbe(),
        scripts: (any ScriptCheck)? = nil
    ) throws(ClusterError) -> AdministrationService {
        var settings = Cluster.Settings(
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

/// No other node answers.
struct UnreachableProbe: NodeProbe {
    func ask(_ request: ProbeRequest) async -> ProbeAnswer { .unreachable("no node answers") }
}

extension AdministrationService {
    /// Whether these are the administrator's name and password.
    func isAdministrator(_ user: String, _ password: String) -> Bool {
        if case .administrator = users.login(user, password) { true } else { false }
    }
}

/// The parameters of a REST form.
func form(_ fields: (String, String)...) -> FormParameters {
    FormParameters(fields.map { ($0.0, $0.1) })
}
