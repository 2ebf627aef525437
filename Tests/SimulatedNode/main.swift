import Foundation
import SimulationStage

// divan-simulated-node FIRST [COUNT]: runs seeds of the one-node simulation, one output line each.
let arguments = CommandLine.arguments.dropFirst().compactMap { UInt64($0) }
let isVerbose = CommandLine.arguments.contains("--transcript")
let count = arguments.dropFirst().first ?? 1
exit(SeedRuns.run(first: arguments.first ?? 1, count: count, isVerbose))
