import Bytes
import Seams
package import SimulatedPlatform
import Vocabulary

/// One run of one node by a seed: clients, faults, recovery, a clean stop, and the final checks.
///
/// The seed first draws its fault kinds, and most are off (*swarm testing*): some bugs show only if
/// another fault does not mask them.
package final class OneNodeRun {
    /// The result of a run; it holds if `violations` is empty.
    package struct Outcome: Sendable {
        package let seed: UInt64
        package let digest: UInt64
        package let violations: [String]
        package let operations: Int
        package let faults: [String: Int]
        package let starts: Int
        package let steps: UInt64
        package let simulatedSeconds: Double
        package let diskOperations: Int
        package let transcript: [Transcript.Line]
    }

    package let world: SimulatedWorld
    private let verifier = Verifier()
    private let node: NodeDriver
    private var clients: [ClientDriver] = []
    private let chaos: Chaos

    package init(seed: UInt64, without kinds: Set<String> = []) {
        world = SimulatedWorld(seed: seed)
        var dice = world.random(for: "run")
        let count = 2 + Int(dice.next() % 2)
        let buckets = (0..<count).map { number in
            var settings = BucketSettings(
                name: "bucket\(number)",
                uuid: String(repeating: "0123456789abcde\(number)", count: 2),
                quota: 1 << 30
            )
            settings.vBuckets = 16
            settings.passwordless = .network
            return settings
        }
        node = NodeDriver(world: world, verifier: verifier, buckets: buckets)
        let clientHost = world.addHost("10.0.0.9")
        let environment = clientHost.start()
        for number in 0..<6 {
            clients.append(
                ClientDriver(
                    number,
                    bucket: buckets[number % count],
                    keys: 4 + Int(dice.next() % 12),
                    verifier: verifier,
                    world: world,
                    environment: environment
                )
            )
        }
        chaos = Chaos(world: world, node: node, clientAddress: "10.0.0.9", without: kinds)
    }

    /// Simulated seconds with faults.
    package static let chaosSeconds: UInt64 = 20

    /// Runs the seed to its end.
    package func run() -> Outcome {
        node.start()
        for client in clients { client.start() }
        chaos.start(for: OneNodeRun.chaosSeconds * 1_000_000_000)
        world.run(for: OneNodeRun.chaosSeconds * 1_000_000_000)
        chaos.end()
        world.run(for: 3_000_000_000)
        // A clean restart reopens lanes that were closed after errors.
        restart("before the last reading")
        readAll("after the faults")
        restart("with everything acknowledged")
        readAll("after a clean stop")
        stop("at the end")
        checkFiles()
        if let fault = world.transcript.fault { verifier.recordViolation("fault: \(fault)") }
        return Outcome(
            seed: world.seed,
            digest: world.transcript.digest,
            violations: verifier.violations,
            operations: verifier.reads + verifier.writes + verifier.observations,
            faults: chaos.counts,
            starts: verifier.start,
            steps: world.steps,
            simulatedSeconds: Double(world.now) / 1e9,
            diskOperations: node.host.disk.operations,
            transcript: world.transcript.lines
        )
    }

    private func stop(_ occasion: String) {
        // The faults may have left the node down: wait until it runs.
        if !world.run(for: 20_000_000_000, until: { node.host.isRunning }) {
            verifier.recordViolation("\(occasion): the node did not start")
        }
        var isStopped = false
        node.stop { isStopped = true }
        if !world.run(for: 30_000_000_000, until: { isStopped }) {
            verifier.recordViolation("\(occasion): the node did not stop")
        }
    }

    private func restart(_ occasion: String) {
        stop(occasion)
        node.start()
        world.run(for: 500_000_000)
    }

    private func readAll(_ occasion: String) {
        for client in clients { client.readAll() }
        let isDone = world.run(for: 30_000_000_000) { clients.allSatisfy(\.hasReadAll) }
        if !isDone {
            verifier.recordViolation("\(occasion): not all documents could be read within 30 s")
        }
    }

    /// Runs SQLite's integrity check on every lane file.
    private func checkFiles() {
        let disk = node.host.start(tracing: .warning).disk
        var directories = [NodeDriver.directory]
        var count = 0
        while let directory = directories.popLast() {
            for name in (try? disk.list(directory)) ?? [] {
                let path = directory + "/" + name
                if name.hasSuffix(".sqlite") {
                    count += 1
                    let result = Integrity.check(path, vfs: disk.vfsName)
                    if result != "ok" { verifier.recordViolation("\(path): \(result)") }
                } else if !name.contains(".") || name.contains("-") {
                    directories.append(path)
                }
            }
        }
        if count == 0 { verifier.recordViolation("there are no lane files to check") }
        node.host.exit()
    }
}
