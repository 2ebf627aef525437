import Foundation
import Simulation

/// Runs many seeds, prints those with violations (red), and finally prints the counts and the
/// shortfalls (`Floors`).
///
/// Each seed runs in a separate process, so a crash or hang makes the seed red without ending the
/// swarm, and memory that a process never frees, such as arenas, is returned.
struct Swarm {
    /// Real seconds after which a seed counts as hanging.
    private static let timeoutSeconds: TimeInterval = 120

    private let options: Options
    private var tally = Tally()
    private var count = 0
    private var red: [UInt64] = []

    init(_ options: Options) {
        self.options = options
    }

    /// Runs the seeds; after `seconds` no further seed begins.
    ///
    /// - Returns: Whether all seeds were green and no count is below its floor.
    func run(_ seeds: ClosedRange<UInt64>, seconds: Double?) -> Bool {
        var swarm = self
        return swarm.runAll(seeds, seconds: seconds)
    }

    private mutating func runAll(_ seeds: ClosedRange<UInt64>, seconds: Double?) -> Bool {
        let began = Date()
        for seed in seeds {
            if let seconds, Date().timeIntervalSince(began) >= seconds { break }
            count += 1
            if !runProcess(seed) { red.append(seed) }
        }
        let isUsual = options.plan.workload == "standard" && options.plan.faults == "swarm"
        let shortfalls = isUsual ? Floors.shortfalls(tally, seeds: count) : []
        let names = red.map { "\($0)" }.joined(separator: ", ")
        Main.printLine("\(count) seeds, \(red.count) red\(red.isEmpty ? "" : ": " + names)")
        for group in Tally.Group.allCases {
            Main.printLine("  \(group.rawValue)s \(tally.total(group)): \(tally.text(group))")
        }
        if isUsual, count < Floors.seedsMin {
            Main.printLine("  floors hold from \(Floors.seedsMin) seeds on")
        }
        for shortfall in shortfalls { Main.printLine("  BELOW ITS FLOOR \(shortfall)") }
        if options.isTimed {
            let real = Date().timeIntervalSince(began)
            let average = real / Double(max(count, 1))
            Main.printLine(String(format: "  %.0f s, %.2f s a seed", real, average))
        }
        return red.isEmpty && shortfalls.isEmpty
    }

    // MARK: One seed

    /// Runs a seed in a separate process; returns whether it was green.
    private mutating func runProcess(_ seed: UInt64) -> Bool {
        let process = Process()
        process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        process.arguments = arguments(seed)
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        do {
            try process.run()
        } catch {
            Main.printLine("seed \(seed)  could not be started: \(error.localizedDescription)")
            return false
        }
        let watch = DispatchWorkItem { process.terminate() }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.timeoutSeconds, execute: watch)
        let lines = Self.lines(output)
        let errorLines = Self.lines(errors)
        process.waitUntilExit()
        watch.cancel()
        let isComplete = lines.last?.hasPrefix("tally ") == true
        for line in lines where line.hasPrefix("tally ") {
            if let counted = Tally(line: line.dropFirst(6)) { tally.add(counted) }
        }
        if isComplete, process.terminationStatus == 0 { return true }
        for line in lines where !line.hasPrefix("tally ") { Main.printLine(line) }
        if !isComplete {
            Main.printLine("seed \(seed)  did not finish: \(errorLines.first ?? "no output")")
        }
        return false
    }

    private func arguments(_ seed: UInt64) -> [String] {
        var arguments = ["--seed", "\(seed)", "--tally"]
        arguments += ["--workload", options.plan.workload, "--faults", options.plan.faults]
        if let nodes = options.plan.nodes { arguments += ["--nodes", "\(nodes)"] }
        if options.isTimed { arguments.append("--timing") }
        return arguments
    }

    /// All lines until the pipe's other end closes.
    private static func lines(_ pipe: Pipe) -> [String] {
        let data = (try? pipe.fileHandleForReading.readToEnd()) ?? Data()
        return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}
