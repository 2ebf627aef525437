internal import Foundation

/// The load of the demo: `divan-bench` with the workload `demo`, on the terminal of the command.
///
/// A separate program instead of a loop: there is one load generator, so its numbers mean the same
/// as every other number in `benchmarks`.
struct DemoLoad {
    let checkout: Checkout
    let credentials: Credentials
    /// The CA file with which the load connects over TLS; nil for the plain port.
    let authorityFile: String?

    private var workload: String { checkout.root + "/benchmarks/workloads/demo.json" }

    /// Runs the load to its end.
    ///
    /// - Returns: Whether it could be measured; if not, the program has printed the reason.
    func run(
        on nodes: [RememberedNode],
        bucket: String,
        seconds: Double
    ) throws -> Bool {
        guard let node = nodes.first else { throw Refusal("No node runs.") }
        let process = Process()
        process.executableURL = URL(filePath: try checkout.program("divan-bench"))
        process.arguments = [
            workload, "--bucket", bucket, "--user", credentials.user, "--seconds", String(seconds),
        ]
        if let authorityFile {
            process.arguments? += ["--port", String(node.ports.kvTLS), "--cacert", authorityFile]
        } else {
            process.arguments? += ["--port", String(node.ports.kv)]
        }
        for server in nodes.compactMap(\.process) {
            process.arguments? += ["--server-pid", String(server.pid)]
        }
        process.environment = ProcessInfo.processInfo.environment
            .merging(["DIVAN_PASSWORD": credentials.password]) { $1 }
        process.standardInput = FileHandle.nullDevice
        // The launcher's output comes before the program's.
        fflush(nil)
        try process.run()
        process.waitUntilExit()
        return process.terminationReason == .exit && process.terminationStatus == 0
    }
}
