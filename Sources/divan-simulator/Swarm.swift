import Foundation
import LinuxPlatform
import Simulation

/// Runs many seeds, each in a process of its own (`SeedProcess`).
///
/// `runAll` prints what each seed prints. `run` prints only seeds with violations (red), and finally
/// the counts and the shortfalls (`MinimumCounts`). Results are printed in the order of the seeds, so the output
/// does not depend on how many run at a time.
///
/// - One thread does everything: a sweep builds this program for one thread.
struct Swarm {
    /// How many results may wait for an earlier seed, for each of the seeds that run at a time.
    private static let waitingMax = 8

    private let options: Options
    private var tally = Tally()
    private var count = 0
    private var red: [UInt64] = []

    init(_ options: Options) {
        self.options = options
    }

    /// Runs the seeds and prints the output of each.
    ///
    /// - Returns: Whether all seeds were green.
    func runAll(_ seeds: ClosedRange<UInt64>) -> Bool {
        var swarm = self
        swarm.runProcesses(seeds, seconds: nil) { result in
            result.lines.forEach(Main.printLine)
            if options.isTallied {
                Main.printLine(SeedResult.tallyPrefix + result.tally.line)
            }
        }
        swarm.printRepetition()
        return swarm.red.isEmpty
    }

    /// Runs the seeds and prints the red ones and the counts; after `seconds` no further seed begins.
    ///
    /// - Returns: Whether all seeds were green and no count is below its floor.
    func run(_ seeds: ClosedRange<UInt64>, seconds: Double?) -> Bool {
        let began = Date()
        var swarm = self
        swarm.runProcesses(seeds, seconds: seconds) { result in
            if !result.isGreen { result.lines.forEach(Main.printLine) }
        }
        return swarm.printCounts(since: began)
    }

    private func printCounts(since began: Date) -> Bool {
        let isUsual = options.plan.workload == "standard" && options.plan.faults == "swarm"
        let shortfalls = isUsual ? MinimumCounts.shortfalls(tally, seeds: count) : []
        let names = red.map { "\($0)" }.joined(separator: ", ")
        Main.printLine("\(count) seeds, \(red.count) red\(red.isEmpty ? "" : ": " + names)")
        printRepetition()
        for group in Tally.Group.allCases {
            Main.printLine("  \(group.rawValue)s \(tally.total(group)): \(tally.text(group))")
        }
        if isUsual, count < MinimumCounts.seedsMin {
            Main.printLine("  floors hold from \(MinimumCounts.seedsMin) seeds on")
        }
        for shortfall in shortfalls { Main.printLine("  BELOW ITS FLOOR \(shortfall)") }
        if options.isTimed {
            let real = Date().timeIntervalSince(began)
            let average = real / Double(max(count, 1))
            Main.printLine(String(format: "  %.0f s, %.2f s a seed", real, average))
        }
        return red.isEmpty && shortfalls.isEmpty
    }

    /// Prints the command that runs the first red seed alone, if there is one.
    private func printRepetition() {
        guard let seed = red.first else { return }
        let words = SeedProcess.repetition(of: seed, options).joined(separator: " ")
        Main.printLine("  the first red one alone: divan-simulator \(words)")
    }

    // MARK: Processes

    /// Runs the seeds, `jobs` at a time, and passes their results to `handle` in the order of the seeds.
    private mutating func runProcesses(
        _ seeds: ClosedRange<UInt64>,
        seconds: Double?,
        handle: (SeedResult) -> Void
    ) {
        let began = Date()
        var rest = seeds.makeIterator()
        var running: [SeedProcess] = []
        // The seeds that have begun and are not handled, in order, and results of such ones.
        var begun: [UInt64] = []
        var waiting: [UInt64: SeedResult] = [:]
        while true {
            while running.count < options.jobs,
                waiting.count < Swarm.waitingMax * options.jobs,
                seconds.map({ Date().timeIntervalSince(began) < $0 }) ?? true,
                let seed = rest.next()
            {
                running.append(SeedProcess(seed, options))
                begun.append(seed)
            }
            if running.isEmpty { return }
            for place in ProgramRun.waitForEnds(of: running.map(\.run)).reversed() {
                let ended = running.remove(at: place)
                waiting[ended.seed] = ended.result
            }
            while let seed = begun.first, let result = waiting.removeValue(forKey: seed) {
                begun.removeFirst()
                record(seed, result)
                handle(result)
            }
        }
    }

    private mutating func record(_ seed: UInt64, _ result: SeedResult) {
        count += 1
        tally.add(result.tally)
        if !result.isGreen { red.append(seed) }
    }
}
