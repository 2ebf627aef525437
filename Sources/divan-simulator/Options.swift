import Simulation

/// The options of the command line.
struct Options {
    enum Extent {
        /// Seeds one after the other in this process; prints a line for each.
        case seeds(ClosedRange<UInt64>)
        /// Seeds in separate processes; floors are checked at the end.
        case swarm(ClosedRange<UInt64>)
        /// A swarm that runs for a duration, from the given seed on.
        case swarmFor(seconds: Double, from: UInt64)
        /// A scripted replay of a failure that a seed found, by the story's name.
        case story(String)
    }

    static let usage = """
        usage: divan-simulator --seed N [--seeds COUNT]   seeds one after the other
               divan-simulator --seeds A-B                a swarm: also fails below its floors
               divan-simulator --swarm SECONDS [--seed N] a swarm of SECONDS, from seed N on
               divan-simulator --story NAME               a replay of a failure that a seed found
               [--nodes N] [--workload W] [--faults F] (not for stories) [--transcript] [--timing]
          workloads: \(SimulationPlan.workloads.joined(separator: ", "))
          stories:   \(Story.names.joined(separator: ", "))
          faults:    swarm (by the seed), none, harmless, all, or kinds with commas between:
                     \(SimulationPlan.faults.joined(separator: ", "))
        """

    var extent: Extent
    var plan = SimulationPlan(seed: 0)
    var isVerbose = false
    var isTimed = false
    /// Whether to print the tally as one machine-readable line.
    var isTallied = false

    /// Parses the arguments; nil if they are invalid.
    init?(_ arguments: some Sequence<String>) {
        var rest = Array(arguments)[...]
        var (seed, seconds): (UInt64?, Double?)
        var count: UInt64?
        var range: ClosedRange<UInt64>?
        var story: String?
        var isPlanned = false
        while let option = rest.popFirst() {
            switch option {
            case "--transcript": isVerbose = true
            case "--timing": isTimed = true
            case "--tally": isTallied = true
            case "--seed":
                guard let given = rest.popFirst().flatMap({ UInt64($0) }) else { return nil }
                seed = given
            case "--seeds":
                let ends = (rest.popFirst() ?? "").split(separator: "-").map { UInt64($0) }
                switch ends.count {
                case 1: count = ends[0]
                case 2:
                    guard let first = ends[0], let last = ends[1], first <= last else { return nil }
                    range = first...last
                default: return nil
                }
                guard count != nil || range != nil, count != 0 else { return nil }
            case "--swarm":
                guard let given = rest.popFirst().flatMap({ Double($0) }), given > 0 else {
                    return nil
                }
                seconds = given
            case "--nodes":
                guard let given = rest.popFirst().flatMap({ Int($0) }), 1...16 ~= given else {
                    return nil
                }
                plan.nodes = given
                isPlanned = true
            case "--story":
                guard let name = rest.popFirst(), Story.names.contains(name) else { return nil }
                story = name
            case "--workload", "--faults":
                guard let given = rest.popFirst(), !given.isEmpty else { return nil }
                isPlanned = true
                if option == "--workload" { plan.workload = given } else { plan.faults = given }
            default: return nil
            }
        }
        if let story {
            // A story has a fixed plan.
            guard seed == nil, count == nil, range == nil, seconds == nil, !isPlanned else {
                return nil
            }
            extent = .story(story)
        } else if let seconds {
            guard count == nil, range == nil else { return nil }
            extent = .swarmFor(seconds: seconds, from: seed ?? 1)
        } else if let range {
            guard seed == nil else { return nil }
            extent = .swarm(range)
        } else {
            guard let seed else { return nil }
            let (last, isBeyond) = seed.addingReportingOverflow((count ?? 1) - 1)
            guard !isBeyond else { return nil }
            extent = .seeds(seed...last)
        }
        guard SimulationRun(plan) != nil else { return nil }
    }
}
