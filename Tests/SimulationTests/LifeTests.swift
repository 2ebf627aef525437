import Foundation
import SimulationStage
import Testing

/// The shipped data service and SQLite, one life for each seed (rules: SimulationStage/README.md).
@Suite struct LifeTests {
    /// No change that was reported as persisted is lost, no value is read that was not written, and
    /// a clean stop keeps everything.
    @Test(arguments: [1...25, 26...50, 51...75, 76...100] as [ClosedRange<UInt64>])
    func runOfEverySeedHasNoViolation(_ seeds: ClosedRange<UInt64>) {
        var operations = 0
        var faults: [String: Int] = [:]
        for seed in seeds {
            let outcome = OneNodeRun(seed: seed).run()
            #expect(outcome.violations == [], "divan-simulated-node \(seed)")
            operations += outcome.operations
            faults.merge(outcome.faults, uniquingKeysWith: +)
        }
        // Lives without faults prove nothing.
        #expect(operations > 25 * 1_000)
        #expect(faults.count == 16, "\(faults)")
        #expect(faults.values.reduce(0, +) > 25 * 8)
    }

    @Test func equalSeedsHaveEqualTranscripts() throws {
        for seed in [4, 65] as [UInt64] {
            let (one, other) = (OneNodeRun(seed: seed).run(), OneNodeRun(seed: seed).run())
            #expect(one.digest == other.digest)
            #expect(one.transcript == other.transcript)
        }
        #expect(OneNodeRun(seed: 4).run().digest != OneNodeRun(seed: 5).run().digest)
    }

    /// The order of dictionaries differs between processes and must not matter.
    @Test func equalSeedsHaveEqualTranscriptsInAnotherProcess() throws {
        func lives() throws -> String {
            let program = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
                .deletingLastPathComponent().appending(path: "divan-simulated-node")
            let process = Process()
            process.executableURL = program
            process.arguments = ["1", "6"]
            let (output, errors) = (Pipe(), Pipe())
            process.standardOutput = output
            process.standardError = errors
            try process.run()
            let text = try output.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            #expect(process.terminationStatus == 0)
            return String(decoding: text, as: UTF8.self)
        }
        let (one, other) = (try lives(), try lives())
        #expect(one == other)
        #expect(one.split(separator: "\n").count == 6)
        let here = String(OneNodeRun(seed: 6).run().digest, radix: 16)
        #expect(one.contains("seed 6  digest \(here) "))
    }
}
