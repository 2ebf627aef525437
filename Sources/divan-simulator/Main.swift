import Foundation
import LinuxPlatform
import Simulation

/// `divan-simulator --seed N ...`: prints a line for each seed.
///
/// The exit code is 0 if all seeds are green, 1 after a violation, 2 if the options are invalid.
@main
struct Main {
    static func main() {
        restartWithFixedHashes()
        guard let options = Options(CommandLine.arguments.dropFirst()) else { fail() }
        if let parent = options.parent, let obstacle = ParentProcess.follow(parent) {
            FileHandle.standardError.write(Data((obstacle + "\n").utf8))
            exit(1)
        }
        switch options.extent {
        case .seed(let seed): exit(runSeed(seed, options) ? 0 : 1)
        case .seeds(let seeds): exit(Swarm(options).runAll(seeds) ? 0 : 1)
        case .story(let name): exit(runStory(name, options) ? 0 : 1)
        case .swarm(let seeds): exit(Swarm(options).run(seeds, seconds: nil) ? 0 : 1)
        case .swarmFor(let seconds, let first):
            exit(Swarm(options).run(first...UInt64.max, seconds: seconds) ? 0 : 1)
        }
    }

    /// Runs a seed in this process; returns whether it was green.
    private static func runSeed(_ seed: UInt64, _ options: Options) -> Bool {
        var plan = options.plan
        plan.seed = seed
        guard let run = SimulationRun(plan) else { fail() }
        let began = Date()
        let outcome = run.run()
        if options.isVerbose { outcome.transcript.forEach(printLine) }
        let real = Date().timeIntervalSince(began)
        let speed = Double(outcome.nanoseconds) / 1e9 / real
        let timing =
            options.isTimed ? String(format: "  %.2f s, %.0fx real time", real, speed) : ""
        printLine(line(plan, outcome) + timing)
        for violation in outcome.violations { printLine("  VIOLATION \(violation)") }
        if options.isTallied { printLine(SeedResult.tallyPrefix + outcome.tally.line) }
        return outcome.violations.isEmpty
    }

    /// Runs a story; returns whether it was green.
    private static func runStory(_ name: String, _ options: Options) -> Bool {
        guard let story = Story(name) else { fail() }
        let began = Date()
        let outcome = story.run()
        if options.isVerbose { outcome.transcript.forEach(printLine) }
        let real = Date().timeIntervalSince(began)
        let timing = options.isTimed ? String(format: "  %.2f s", real) : ""
        let count = outcome.violations.count
        printLine("story \(name)  " + (count == 0 ? "green" : "\(count) VIOLATIONS") + timing)
        for violation in outcome.violations { printLine("  VIOLATION \(violation)") }
        return count == 0
    }

    private static func line(_ plan: SimulationPlan, _ outcome: SimulationOutcome) -> String {
        let tally = outcome.tally
        let count = outcome.violations.count
        return "seed \(plan.seed)  digest \(String(outcome.digest, radix: 16))  "
            + "\(outcome.nodes) nodes  \(tally.total(.operation)) operations, "
            + "\(tally[.check, "failedOperations"]) failed  \(tally.total(.action)) actions  "
            + "\(tally[.change, "failover"]) failovers  "
            + "\(tally[.change, "takeover"] + tally[.change, "replicaMove"]) moves  "
            + "[\(tally.text(.fault))]  "
            + (count == 0 ? "green" : "\(count) VIOLATIONS")
    }

    /// Replaces the process by one with deterministic hashing.
    ///
    /// The iteration order of dictionaries differs between processes and affects the order of
    /// messages; a seed must have the same result in every process.
    private static func restartWithFixedHashes() {
        let name = "SWIFT_DETERMINISTIC_HASHING"
        guard ProcessInfo.processInfo.environment[name] == nil else { return }
        setenv(name, "1", 1)
        execv("/proc/self/exe", CommandLine.unsafeArgv)
        fail()
    }

    /// Prints a line without buffering, so it is visible while the next seed runs.
    static func printLine(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }

    private static func fail() -> Never {
        FileHandle.standardError.write(Data((Options.usage + "\n").utf8))
        exit(2)
    }
}
