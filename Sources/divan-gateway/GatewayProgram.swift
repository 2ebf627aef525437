import Bytes
import LinuxPlatform
import Seams
import SyncFrontend
import SyncWire
import Vocabulary

/// One run of the gateway, from its command line to the signal that ends it.
struct GatewayProgram {
    private let arguments: GatewayArguments

    init(_ arguments: GatewayArguments) { self.arguments = arguments }

    /// Serves until a signal ends the process.
    ///
    /// - Throws: Why it does not serve, as a sentence for an operator.
    func run() throws {
        let spawner = try Spawner.fork(Self.rules(isUnconfined: arguments.isUnconfined))
        let signals = EndingSignals()
        let disk = LinuxDisk()
        let plan = try plan(disk)
        let trace = try plan.logPath.map(LogTrace.init(appendingTo:)) ?? LogTrace()
        let start = try GatewayStart(plan, version: Release.version, announce: trace.announce)
        let cores = SystemCores.count
        start.announceProgram(processors: cores)
        let world = LinuxEnvironment.make(reactors: 1, trace: trace, spawner: spawner)
        let gateway = try start.run(
            world.environment,
            memoryBytes: arguments.memoryQuotaBytes,
            processors: cores,
            allowsUnfiltered: arguments.isUnconfined
        )
        try confine(trace, FrontConfinement.begin)
        try start.listen(gateway)
        try confine(trace, FrontConfinement.finish)
        signals.wait()
        gateway.stop()
        world.stop()
    }

    /// Script processes with the arguments that this program gives them.
    private static func rules(isUnconfined: Bool) -> SpawnRules {
        SpawnRules([
            "divan-script": { arguments in
                var rest = arguments[...]
                if isUnconfined, rest.last == "--unfiltered" { rest.removeLast() }
                guard rest.first == "--memory" else { return rest.isEmpty }
                return rest.count == 2 && rest.last.flatMap { UInt16($0) } != nil
            }
        ])
    }

    /// - Throws: The file cannot be read, or has a mistake.
    private func plan(_ disk: LinuxDisk) throws -> GatewayPlan {
        guard let path = arguments.configurationPath else {
            return try GatewayPlan(arguments, file: nil)
        }
        guard let bytes = try disk.read(path) else {
            throw StartMistake("\(path): there is no such file; name the configuration")
        }
        let text = ByteWriter(capacity: bytes.count)
        text.append(bytes)
        return try text.withView { try GatewayPlan(arguments, file: $0) }
    }

    /// - Throws: The kernel refuses, and the operator did not allow that.
    private func confine(_ trace: LogTrace, _ step: () -> String?) throws {
        if arguments.isUnconfined { return }
        guard let failure = step() else { return }
        throw StartMistake(
            "This process is not confined: \(failure). Allow the system call seccomp (a container's "
                + "profile may refuse it), or start it with --unconfined: then an attacker who takes it "
                + "over may do what its user may."
        )
    }
}
