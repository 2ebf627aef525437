import Simulation

/// The options of the command line.
struct Options {
    enum Extent {
        /// One seed, in this process.
        case seed(UInt64)
        /// Seeds in processes of their own; prints a line for each.
        case seeds(ClosedRange<UInt64>)
        /// Seeds in processes of their own; floors are checked at the end.
        case swarm(ClosedRange<UInt64>)
        /// A swarm that runs for a duration, from the given seed on.
        case swarmFor(seconds: Double, from: UInt64)
        /// A scripted replay of a failure that a seed found, by the story's name.
        case story(String)
    }

    static let usage = """
        usage: divan-simulator --seed N [--seeds COUNT]   one seed, or COUNT seeds from N on
               divan-simulator --seeds A-B                a swarm: also fails below its floors
               divan-simulator --swarm SECONDS [--seed N] a swarm of SECONDS, from seed N on
               divan-simulator --story NAME               a replay of a failure that a seed found
               [--nodes N] [--workload W] [--faults F] (not for stories) [--transcript] [--timing]
               [--jobs N] [--limit SECONDS]               (not for stories, nor for one seed)
          workloads: \(SimulationPlan.workloads.joined(separator: ", "))
          stories:   \(Story.names.joined(separator: ", "))
          faults:    swarm (by the seed), none, harmless, all, or kinds with commas between:
                     \(SimulationPlan.faults.joined(separator: ", "))
          jobs:      how many seeds run at a time, each in a process of its own (1)
          limit:     processor time of each seed in such a process (\(Int(SeedLimits().cpuSeconds)) s)
        """

    private(set) var extent = Extent.seed(0)
    private(set) var plan = SimulationPlan(seed: 0)
    private(set) var isVerbose = false
    private(set) var isTimed = false
    /// Whether to print the tally as one machine-readable line.
    private(set) var isTallied = false
    /// The process that this one ends with; nil if none.
    private(set) var parent: Int32?
    private(set) var jobs = 1
    private(set) var limits = SeedLimits()

    /// Parses the arguments; nil if they are invalid.
    init?(_ arguments: some Sequence<String>) {
        var rest = Array(arguments)[...]
        var request = ExtentRequest()
        while let option = rest.popFirst() {
            if setFlag(option) { continue }
            guard let value = rest.popFirst(), set(option, to: value, &request) else { return nil }
        }
        guard let extent = request.extent, SimulationRun(plan) != nil else { return nil }
        self.extent = extent
    }

    /// Sets an option without a value; returns whether there is one of this name.
    private mutating func setFlag(_ option: String) -> Bool {
        switch option {
        case "--transcript": isVerbose = true
        case "--timing": isTimed = true
        case "--tally": isTallied = true
        default: return false
        }
        return true
    }

    /// Sets an option with a value; returns whether both are valid.
    private mutating func set(
        _ option: String,
        to value: String,
        _ request: inout ExtentRequest
    ) -> Bool {
        switch option {
        case "--nodes":
            guard let count = Int(value), 1...16 ~= count else { return false }
            plan.nodes = count
            request.isPlanned = true
        case "--workload", "--faults":
            guard !value.isEmpty else { return false }
            request.isPlanned = true
            if option == "--workload" { plan.workload = value } else { plan.faults = value }
        case "--jobs":
            guard let count = Int(value), 1...256 ~= count else { return false }
            jobs = count
            request.hasProcesses = true
        case "--limit":
            guard let seconds = Double(value), let limits = SeedLimits(cpuSeconds: seconds)
            else { return false }
            self.limits = limits
            request.hasProcesses = true
        case "--child-of":
            guard let number = Int32(value) else { return false }
            parent = number
        default: return request.set(option, to: value)
        }
        return true
    }
}

/// The options that select what is run, as they were given.
private struct ExtentRequest {
    private var seed: UInt64?
    private var count: UInt64?
    private var range: ClosedRange<UInt64>?
    private var seconds: Double?
    private var story: String?
    /// Whether an option changes the plan, which a story does not allow.
    var isPlanned = false
    /// Whether an option is about the processes of many seeds.
    var hasProcesses = false

    mutating func set(_ option: String, to value: String) -> Bool {
        switch option {
        case "--seed":
            seed = UInt64(value)
            return seed != nil
        case "--seeds": return setSeeds(value)
        case "--swarm":
            guard let given = Double(value), given > 0 else { return false }
            seconds = given
        case "--story":
            guard Story.names.contains(value) else { return false }
            story = value
        default: return false
        }
        return true
    }

    private mutating func setSeeds(_ value: String) -> Bool {
        let ends = value.split(separator: "-").map { UInt64($0) }
        switch ends.count {
        case 1:
            guard let given = ends[0], given > 0 else { return false }
            count = given
        case 2:
            guard let first = ends[0], let last = ends[1], first <= last else { return false }
            range = first...last
        default: return false
        }
        return true
    }

    /// Nil if the options exclude each other, or one is missing.
    var extent: Options.Extent? {
        if let story {
            let isAlone = seed == nil && count == nil && range == nil && seconds == nil
            return isAlone && !isPlanned && !hasProcesses ? .story(story) : nil
        }
        if let seconds {
            return count == nil && range == nil
                ? .swarmFor(seconds: seconds, from: seed ?? 1) : nil
        }
        if let range { return seed == nil && count == nil ? .swarm(range) : nil }
        guard let seed else { return nil }
        guard let count else { return hasProcesses ? nil : .seed(seed) }
        let (last, isBeyond) = seed.addingReportingOverflow(count - 1)
        return isBeyond ? nil : .seeds(seed...last)
    }
}
