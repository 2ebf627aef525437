internal import Foundation

/// The load of the demo: `divan-bench` with the workload `demo`, on the terminal of whoever asked.
///
/// A program of its own and not a loop in here: there is one load generator, and what it measures
/// is what every other number in `benchmarks` means.
struct DemoLoad {
    let checkout: Checkout
    let credentials: Credentials

    private var workload: String { checkout.root + "/benchmarks/workloads/demo.json" }

    /// Runs to the end.
    ///
    /// - Returns: Whether it could be measured; if not, the program has said why.
    func run(
        on nodes: [RememberedNode],
        bucket: String,
        seconds: Double
    ) throws -> Bool {
        guard let node = nodes.first else { throw Refusal("No node runs.") }
        let process = Process()
        process.executableURL = URL(filePath: try checkout.program("divan-bench"))
        process.arguments = [
            workload, "--port", String(node.ports.kv), "--bucket", bucket,
            "--user", credentials.user, "--seconds", String(seconds),
        ]
        for server in nodes.compactMap(\.process) {
            process.arguments? += ["--server-pid", String(server.pid)]
        }
        process.environment = ProcessInfo.processInfo.environment
            .merging(["DIVAN_PASSWORD": credentials.password]) { $1 }
        process.standardInput = FileHandle.nullDevice
        // What we said comes before what it says.
        fflush(nil)
        try process.run()
        process.waitUntilExit()
        return process.terminationReason == .exit && process.terminationStatus == 0
    }
}
