import Foundation
import SimulationStage

// divan-simulated-node FIRST [COUNT]: the lives of one node by their seeds, a line each.
let arguments = CommandLine.arguments.dropFirst().compactMap { UInt64($0) }
let isVerbose = CommandLine.arguments.contains("--transcript")
exit(Lives.run(first: arguments.first ?? 1, count: arguments.dropFirst().first ?? 1, isVerbose))
