internal import ArgumentParser
internal import Bytes
internal import DivanClient
internal import Foundation
internal import LinuxPlatform
internal import Seams
internal import Vocabulary
internal import Wire

/// `divan-bench steady`: a load that continues while nodes are killed, failed over and rebalanced.
struct SteadyCommand: LoadCommand {
    static let configuration = CommandConfiguration(
        commandName: "steady",
        abstract: "Load a cluster steadily through the client library, and report errors.",
        discussion: """
            Routes by the cluster map and follows it. Prints errors by kind, latencies, the longest \
            time without any success and the longest time that one key was not served; --json also \
            writes a timeline of tenths of a second. Ctrl-C, SIGTERM or SIGHUP ends the load early.
            """
    )

    @Argument(help: "Workload file: keys, values and mix.")
    var workload: String

    @OptionGroup var cluster: ClusterOptions

    @Option(help: "Operations a second, independent of answers (open loop); 0: a closed loop.")
    var rate = 1_000.0

    @Option(help: "Operations in flight: always in a closed loop, at most in an open one.")
    var underWay: Int?

    @Option(help: "Seconds.")
    var seconds = 10.0

    @Option(help: "Instead of the workload's: number of keys.")
    var keys: Int?

    @Option(help: "Instead of the workload's: writes of 100 operations.")
    var writePercent: Double?

    @Flag(inversion: .prefixedNo, help: "Store all documents first, or not.")
    var preload = true

    @Option(help: "Samples a second of the time that a write takes to reach the replica; 0: none.")
    var sampleReplication = 0.0

    @OptionGroup var result: ResultOptions

    func test() throws(BenchError) {
        let plan = try plan()
        let end = Interruption()
        let world = LinuxEnvironment.make(reactors: 1, logLevel: .error)
        let environment = world.environment
        let lane = environment.network.lane(ofReactor: 0)
        let client = try cluster.open(environment)
        let load = SteadyLoad(plan, client, environment)
        let progress = ProgressLine(isQuiet: result.quiet)
        if preload { fill(load, plan, lane, progress) }
        let sampler =
            sampleReplication > 0
            ? ReplicationSampler(perSecond: sampleReplication, client, environment) : nil
        lane.post {
            load.begin()
            sampler?.begin()
        }
        let start = Date.now
        while case let left = seconds - Date.now.timeIntervalSince(start), left > 0, !end.hasCome {
            usleep(UInt32(min(left, 0.05) * 1_000_000))
            let (succeeded, failed) = lane.ask { (load.tally.succeeded, load.tally.failed) }
            let done = Report.grouped(Double(succeeded))
            progress.show("\(done) succeeded, \(Report.grouped(Double(failed))) failed")
        }
        let lasted = Date.now.timeIntervalSince(start)
        lane.post {
            load.stop()
            sampler?.stop()
        }
        while lane.ask({ load.underWay + (sampler?.underWay ?? 0) }) > 0 { usleep(10_000) }
        progress.clear()
        let report = SteadyReport(
            tally: lane.ask { load.end() },
            plan: plan,
            seconds: (lasted * 1_000).rounded() / 1_000,
            skipped: lane.ask { load.skipped },
            replication: lane.ask { sampler?.found }
        )
        try result.write(report.text, json: report.json)
    }

    private func fill(
        _ load: SteadyLoad,
        _ plan: SteadyLoad.Plan,
        _ lane: any Lane,
        _ progress: ProgressLine
    ) {
        lane.post { load.load() }
        while true {
            let done = lane.ask { load.loaded }
            progress.show("loading", done, of: plan.workload.keys)
            if done == plan.workload.keys { return }
            usleep(50_000)
        }
    }

    private func plan() throws(BenchError) -> SteadyLoad.Plan {
        var file = try Workload(file: workload)
        file.keys = keys ?? file.keys
        file.writePercent = writePercent ?? file.writePercent
        try file.validate()
        let isSensible =
            rate >= 0 && rate.isFinite && seconds > 0 && (0...10_000).contains(sampleReplication)
            && cluster.timeout > 0 && underWay ?? 1 > 0
        guard isSensible else {
            throw BenchError(
                "--rate is 0 or more, --sample-replication 0 to 10000; --seconds, --timeout, "
                    + "--under-way are more than 0"
            )
        }
        return SteadyLoad.Plan(
            workload: file,
            rate: rate,
            underWayMax: underWay ?? (rate > 0 ? 50_000 : 64),
            durability: try cluster.level(),
            timeoutMilliseconds: cluster.timeout
        )
    }
}

/// Ctrl-C, SIGTERM or a closed terminal: the load ends as if its time were over.
final class Interruption {
    private let watch: SignalWatch
    private let flag: Guarded<Bool>

    init() {
        let flag = Guarded(false)
        self.flag = flag
        watch = SignalWatch { _ in flag.withLock { $0 = true } }
    }

    var hasCome: Bool { flag.withLock { $0 } }
}

extension Lane {
    /// Runs `body` on the lane and waits for what it returns; called from outside it.
    func ask<Result: Sendable>(_ body: @escaping @Sendable () -> Result) -> Result {
        let place = Guarded<Result?>(nil)
        let done = DispatchSemaphore(value: 0)
        post {
            let result = body()
            place.withLock { $0 = result }
            done.signal()
        }
        done.wait()
        guard let result = place.withLock({ $0 }) else {
            preconditionFailure("the lane has signalled that it is done")
        }
        return result
    }
}
