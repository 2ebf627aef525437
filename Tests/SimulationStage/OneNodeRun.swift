import Bytes
import Seams
package import SimulatedPlatform
import Vocabulary

/// A seed's life of one node: clients, faults, quiet, a clean stop, and the question what is left.
///
/// Which faults a seed has is drawn first, and most are off (a *swarm*): some bugs show only where
/// another fault does not get in the way.
package final class OneNodeRun {
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
    private let judge = Judge()
    private let node: NodeDriver
    private var clients: [ClientDriver] = []
    private let chaos: Chaos

    package init(seed: UInt64, without kinds: Set<String> = []) {
        world = SimulatedWorld(seed: seed)
        var dice = world.dice("run")
        let count = 2 + Int(dice.next() % 2)
        let buckets = (0..<count).map { number in
            var settings = BucketSettings(
                name: "bucket\(number)",
                uuid: String(repeating: "0123456789abcde\(number)", count: 2),
                quota: 1 << 30
            )
            settings.vBuckets = 16
            settings.passwordless = true
            return settings
        }
        node = NodeDriver(world: world, judge: judge, buckets: buckets)
        let clientHost = world.addHost("10.0.0.9")
        let environment = clientHost.start()
        for number in 0..<6 {
            clients.append(
                ClientDriver(
                    number,
                    bucket: buckets[number % count],
                    keys: 4 + Int(dice.next() % 12),
                    judge: judge,
                    world: world,
                    environment: environment
                )
            )
        }
        chaos = Chaos(world: world, node: node, clientAddress: "10.0.0.9", without: kinds)
    }

    package static let chaosSeconds: UInt64 = 20

    package func run() -> Outcome {
        node.start()
        for client in clients { client.start() }
        chaos.start(for: OneNodeRun.chaosSeconds * 1_000_000_000)
        world.run(for: OneNodeRun.chaosSeconds * 1_000_000_000)
        chaos.end()
        world.run(for: 3_000_000_000)
        // A clean start, so that lanes that were closed after errors are open again.
        restart("before the last reading")
        readAll("after the faults")
        restart("with everything acknowledged")
        readAll("after a clean stop")
        stop("at the end")
        checkFiles()
        if let fault = world.transcript.fault { judge.accuse("fault: \(fault)") }
        return Outcome(
            seed: world.seed,
            digest: world.transcript.digest,
            violations: judge.violations,
            operations: judge.reads + judge.writes + judge.observations,
            faults: chaos.counts,
            starts: judge.start,
            steps: world.steps,
            simulatedSeconds: Double(world.now) / 1e9,
            diskOperations: node.host.disk.operations,
            transcript: world.transcript.lines
        )
    }

    private func stop(_ occasion: String) {
        // Whatever state the faults left it in, it is running first.
        if !world.run(for: 20_000_000_000, until: { node.host.isRunning }) {
            judge.accuse("\(occasion): the node did not start")
        }
        var isStopped = false
        node.stop { isStopped = true }
        if !world.run(for: 30_000_000_000, until: { isStopped }) {
            judge.accuse("\(occasion): the node did not stop")
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
        if !isDone { judge.accuse("\(occasion): not everything could be read within 30 s") }
    }

    /// Asks SQLite itself what it thinks of its files.
    private func checkFiles() {
        let disk = node.host.start(tracing: .warning).disk
        var directories = [NodeDriver.directory]
        var count = 0
        while let directory = directories.popLast() {
            for name in (try? disk.list(directory)) ?? [] {
                let path = directory + "/" + name
                if name.hasSuffix(".sqlite") {
                    count += 1
                    let verdict = Integrity.check(path, vfs: disk.vfsName)
                    if verdict != "ok" { judge.accuse("\(path): \(verdict)") }
                } else if !name.contains(".") || name.contains("-") {
                    directories.append(path)
                }
            }
        }
        if count == 0 { judge.accuse("there are no lane files to check") }
        node.host.exit()
    }
}
