import Foundation
import Simulation

/// Many seeds one after the other: prints the red ones and goes on, and in the end says what was
/// done, and what was not done often enough (`Floors`).
///
/// Each seed has a process of its own: one that crashes or hangs is red, and not the end of the
/// swarm; and what a process never gives back, such as arenas, is gone with it.
struct Swarm {
    /// Real seconds after which a seed counts as hanging.
    private static let patience: TimeInterval = 120

    private let options: Options
    private var tally = Tally()
    private var count = 0
    private var red: [UInt64] = []

    init(_ options: Options) {
        self.options = options
    }

    /// Whether all were green and nothing fell short; after `seconds` no other seed begins.
    func run(_ seeds: ClosedRange<UInt64>, seconds: Double?) -> Bool {
        var swarm = self
        return swarm.runAll(seeds, seconds: seconds)
    }

    private mutating func runAll(_ seeds: ClosedRange<UInt64>, seconds: Double?) -> Bool {
        let began = Date()
        for seed in seeds {
            if let seconds, Date().timeIntervalSince(began) >= seconds { break }
            count += 1
            if !runOne(seed) { red.append(seed) }
        }
        let isUsual = options.plan.workload == "standard" && options.plan.faults == "swarm"
        let shortfalls = isUsual ? Floors.shortfalls(tally, seeds: count) : []
        let names = red.map { "\($0)" }.joined(separator: ", ")
        Main.say("\(count) seeds, \(red.count) red\(red.isEmpty ? "" : ": " + names)")
        for group in Tally.Group.allCases {
            Main.say("  \(group.rawValue)s \(tally.total(group)): \(tally.text(group))")
        }
        if isUsual, count < Floors.seedsMin {
            Main.say("  floors hold from \(Floors.seedsMin) seeds on")
        }
        for shortfall in shortfalls { Main.say("  BELOW ITS FLOOR \(shortfall)") }
        if options.isTimed {
            let real = Date().timeIntervalSince(began)
            Main.say(String(format: "  %.0f s, %.2f s a seed", real, real / Double(max(count, 1))))
        }
        return red.isEmpty && shortfalls.isEmpty
    }

    // MARK: One seed

    /// Whether it was green.
    private mutating func runOne(_ seed: UInt64) -> Bool {
        let process = Process()
        process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        process.arguments = arguments(seed)
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        do {
            try process.run()
        } catch {
            Main.say("seed \(seed)  could not be started: \(error.localizedDescription)")
            return false
        }
        let watch = DispatchWorkItem { process.terminate() }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.patience, execute: watch)
        let lines = Self.lines(output)
        let complaints = Self.lines(errors)
        process.waitUntilExit()
        watch.cancel()
        let isComplete = lines.last?.hasPrefix("tally ") == true
        for line in lines where line.hasPrefix("tally ") {
            if let counted = Tally(line: line.dropFirst(6)) { tally.add(counted) }
        }
        if isComplete, process.terminationStatus == 0 { return true }
        for line in lines where !line.hasPrefix("tally ") { Main.say(line) }
        if !isComplete {
            Main.say("seed \(seed)  did not come to its end: \(complaints.first ?? "no word")")
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

    /// All there are until the other end closes.
    private static func lines(_ pipe: Pipe) -> [String] {
        let data = (try? pipe.fileHandleForReading.readToEnd()) ?? Data()
        return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}
