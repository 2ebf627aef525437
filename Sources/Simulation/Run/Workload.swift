/// The parameters of a named workload: the cluster, its clients and its administration.
struct Workload {
    /// An administrator's actions and their frequency.
    struct Script {
        /// Nanoseconds between two actions.
        var pace: ClosedRange<UInt64>
        /// The actions with their relative frequencies.
        var actions: [(action: Operator.Action, weight: UInt64)]
    }

    var nodes = 3...5
    var replicas = 1...2
    /// Whether there is a second, ephemeral bucket.
    var hasEphemeral = true
    /// The number of vBuckets of each bucket.
    var vBuckets = 16
    var clients = 8
    /// Keys that only one client writes and all read.
    var keysOfClient = 16
    /// Keys of each bucket that all its clients write and read.
    var registers = 36
    /// Of three registers, the number that is always written durably.
    var durableOfThree = 1
    /// The timeout of durable writes.
    var durableMilliseconds: UInt64 = 10_000
    var thinkNanoseconds: UInt64 = 100_000_000
    var faultSeconds: UInt64 = 60
    /// How long clients continue after the faults.
    var quietSeconds: UInt64 = 0
    /// The average time after which a client ends during an operation and is replaced; 0 for never.
    var clientSeconds: UInt64 = 0
    /// The administrator's script; nil for none.
    var script: Script? = .standard
    /// Faults that replace those of the plan; nil for the plan's.
    var faults: String?
    /// The maximum of consecutive automatic failovers.
    var failoversMax: UInt16 = 1

    static let names = [
        "standard", "smoke", "async-only", "durable-only", "registers-few-keys",
        "three-copies", "hot-keys", "bucket-storm", "rebalance-storm", "failover-storm",
        "restart-all", "one-node", "two-nodes", "seven-nodes", "quota-storm", "views",
        "consumer", "attributes", "intruder",
    ]

    private init() {}

    /// Few clients, and so many departures and arrivals that an intruder has many keys and tokens.
    private static var attacked: Workload {
        var workload = Workload()
        workload.nodes = 4...5
        workload.clients = 4
        workload.script = .rebalances
        workload.faults = "crash,stop,cutConnections"
        return workload
    }

    /// - Returns: Nil if there is no workload of this name.
    init?(_ name: String) {
        switch name {
        // Two thirds of the registers are durable. The three others add `ViewWatch` and its like.
        case "standard", "views", "consumer", "attributes":
            keysOfClient = 12
            registers = 52
            durableOfThree = 2
            quietSeconds = 30
            clientSeconds = 60
        case "smoke":
            nodes = 3...3
            replicas = 1...1
            hasEphemeral = false
            clients = 4
            faultSeconds = 10
            script = nil
            faults = "none"
        case "async-only":
            registers = 0
            keysOfClient = 24
        case "durable-only":
            // So few that each has several pending writes.
            vBuckets = 4
            clients = 16
            registers = 24
            durableOfThree = 3
            // So short that some writes are aborted.
            durableMilliseconds = 2_000
            keysOfClient = 0
            thinkNanoseconds = 40_000_000
            script = .durable
            failoversMax = 100
        // Three copies: two replicas can differ, and durable writes survive the loss of either.
        case "three-copies", "hot-keys":
            replicas = 2...2
            hasEphemeral = false
            vBuckets = 4
            clients = 12
            registers = name == "hot-keys" ? 12 : 24
            durableOfThree = name == "three-copies" ? 3 : 1
            durableMilliseconds = 2_000
            keysOfClient = 0
            thinkNanoseconds = 25_000_000
            script = .durable
            failoversMax = 100
        case "bucket-storm", "quota-storm":
            hasEphemeral = false
            clients = 4
            script = name == "quota-storm" ? .quotas : .buckets
            if name == "quota-storm" { replicas = 1...1 }
        case "registers-few-keys":
            registers = 6
            keysOfClient = 0
            thinkNanoseconds = 30_000_000
        case "rebalance-storm": script = .rebalances
        case "intruder": self = .attacked
        case "failover-storm":
            script = .failovers
            failoversMax = 100
        case "restart-all":
            faults = "stopAll,powerAll,crashAll"
            script = nil
        case "one-node":
            nodes = 1...1
            replicas = 0...1
        case "two-nodes": nodes = 2...2
        case "seven-nodes": nodes = 7...7
        default: return nil
        }
    }
}

extension Workload.Script {
    private static let second: UInt64 = 1_000_000_000

    static let standard = Workload.Script(
        pace: 4 * second...16 * second,
        actions: Operator.Action.usual.map { ($0, $0 == .rebalance || $0 == .recover ? 2 : 1) }
    )

    /// Actions that must not lose anything.
    static let safe = Workload.Script(
        pace: 4 * second...16 * second,
        actions: Operator.Action.usual.filter { $0 != .failOver }.map { ($0, 1) }
    )

    static let rebalances = Workload.Script(
        pace: 1 * second...5 * second,
        actions: [
            (.rebalance, 3), (.stopRebalance, 1), (.takeOut, 3), (.add, 3), (.replicas, 1),
            (.graceful, 1), (.recover, 2),
        ]
    )

    /// Actions that must not lose durable writes, so that all of them are checked.
    static let durable = Workload.Script(
        pace: 2 * second...7 * second,
        actions: [(.recover, 4), (.rebalance, 1), (.takeOut, 1), (.add, 1), (.graceful, 1)]
    )

    /// A bucket of one name is created and deleted repeatedly.
    static let buckets = Workload.Script(
        pace: 1 * second...4 * second,
        actions: [
            (.createBucket, 3), (.deleteBucket, 2), (.rebalance, 1), (.takeOut, 1), (.add, 1),
        ]
    )

    /// Concurrent requests that together exceed the memory quota.
    static let quotas = Workload.Script(
        pace: second / 2...2 * second,
        actions: [(.raceQuotas, 12), (.recover, 1)]
    )

    static let failovers = Workload.Script(
        pace: 2 * second...7 * second,
        actions: [(.failOver, 2), (.graceful, 1), (.recover, 4), (.rebalance, 1)]
    )
}
