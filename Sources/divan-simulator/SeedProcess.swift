import Foundation
import LinuxPlatform
import Simulation

/// The limits of a seed that runs in a process of its own.
///
/// The usual limit is one of processor time: a seed that other processes starve is slow by the clock
/// only.
struct SeedLimits {
    /// A seed of `standard` needs a few seconds.
    let cpuSeconds: Double

    /// Time by the clock: the last resort against a seed that waits without using a processor.
    var seconds: Double { max(1_200, 10 * cpuSeconds) }

    init() {
        cpuSeconds = 120
    }

    /// Nil unless the limit is positive and at most a day.
    init?(cpuSeconds: Double) {
        guard cpuSeconds > 0, cpuSeconds <= 86_400 else { return nil }
        self.cpuSeconds = cpuSeconds
    }
}

/// A seed in a process of its own, so a crash or hang makes only this seed red, and memory that a
/// process never frees, such as arenas, is returned.
///
/// The process ends with this one, even if this one is killed.
struct SeedProcess {
    let seed: UInt64
    let run: ProgramRun
    private let limits: SeedLimits

    /// Starts the process.
    init(_ seed: UInt64, _ options: Options) {
        self.seed = seed
        limits = options.limits
        var arguments = SeedProcess.repetition(of: seed, options)
        arguments += ["--tally", "--child-of", "\(ParentProcess.ownNumber)"]
        if options.isTimed { arguments.append("--timing") }
        if options.isVerbose { arguments.append("--transcript") }
        run = ProgramRun(
            LimitedProgram(
                URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().path,
                arguments,
                cpuNanosecondsMax: UInt64(limits.cpuSeconds * 1e9),
                nanosecondsMax: UInt64(limits.seconds * 1e9)
            )
        )
    }

    /// The options that run the seed alone.
    static func repetition(of seed: UInt64, _ options: Options) -> [String] {
        let plan = options.plan
        return ["--seed", "\(seed)", "--workload", plan.workload, "--faults", plan.faults]
            + (plan.nodes.map { ["--nodes", "\($0)"] } ?? [])
    }

    /// The output and the end of the process; nil while it runs.
    var result: SeedResult? {
        guard let report = run.report else { return nil }
        var lines = SeedProcess.lines(report.output)
        let tallies = lines.compactMap { line in
            line.hasPrefix(SeedResult.tallyPrefix)
                ? Tally(line: line.dropFirst(SeedResult.tallyPrefix.count)) : nil
        }
        lines.removeAll { $0.hasPrefix(SeedResult.tallyPrefix) }
        // The tally is the last that a seed prints.
        let obstacle = obstacle(report, isComplete: !tallies.isEmpty)
        if let obstacle { lines.append("seed \(seed)  did not finish: \(obstacle)") }
        return SeedResult(
            lines: lines,
            tally: tallies.last ?? Tally(),
            isGreen: obstacle == nil && report.end == .exited(status: 0)
        )
    }

    /// Why the seed did not finish; nil if it did, with or without violations.
    private func obstacle(_ report: ProgramReport, isComplete: Bool) -> String? {
        let used = String(format: "%.1f s", Double(report.cpuNanoseconds) / 1e9)
        let message = SeedProcess.lines(report.errors).first ?? "no message"
        switch report.end {
        case .exited(status: 0...1) where isComplete: return nil
        case .exited(let status): return "exit status \(status): \(message)"
        case .signalled(let signal): return "signal \(signal): \(message)"
        case .failed(let reason): return reason
        case .exceededCPUTime:
            return "it used \(used) of processor time; its limit is \(limits.cpuSeconds) s "
                + "(--limit)"
        case .exceededTime:
            return "it took longer than \(Int(limits.seconds)) s by the clock, and used \(used) of "
                + "processor time"
        }
    }

    private static func lines(_ bytes: [UInt8]) -> [String] {
        String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}

/// The result of a seed.
struct SeedResult {
    static let tallyPrefix = "tally "

    /// The output, without the tally, and why the seed did not finish.
    let lines: [String]
    /// Empty if the process ended before it printed one.
    let tally: Tally
    let isGreen: Bool
}
