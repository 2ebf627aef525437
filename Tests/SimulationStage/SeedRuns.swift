import Foundation

/// Runs seeds one after the other and prints one line per seed, the same in every process.
package enum SeedRuns {
    /// - Returns: The program's exit code: 1 if a seed broke a promise.
    package static func run(first: UInt64, count: UInt64, _ isVerbose: Bool) -> Int32 {
        var failures = 0
        let began = Date()
        var simulated = 0.0
        for seed in first..<first + count {
            let outcome = OneNodeRun(seed: seed).run()
            simulated += outcome.simulatedSeconds
            let faults = outcome.faults.keys.sorted().map { "\($0) \(outcome.faults[$0] ?? 0)" }
            if isVerbose {
                for line in outcome.transcript { print(line) }
            }
            print(
                "seed \(outcome.seed)  digest \(String(outcome.digest, radix: 16))  "
                    + "\(outcome.operations) operations  \(outcome.starts) starts  "
                    + "\(outcome.steps) steps  \(outcome.diskOperations) disk  "
                    + faults.joined(separator: ", ")
            )
            for violation in outcome.violations { print("    VIOLATION \(violation)") }
            if !outcome.violations.isEmpty { failures += 1 }
        }
        let took = Date().timeIntervalSince(began)
        FileHandle.standardError.write(
            Data(
                "\(count) seeds, \(failures) failed, \(Int(simulated)) s simulated in "
                    .utf8
            ) + Data("\(took) s: \(Int(simulated / took)) times real time\n".utf8)
        )
        return failures == 0 ? 0 : 1
    }
}
