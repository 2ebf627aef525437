internal import DivanClient
internal import Foundation
internal import Histogram
internal import Seams

/// The same test through the client library, as applications load a cluster.
///
/// The library routes by the map and follows it, so that nodes may be added and removed meanwhile. The
/// latency of an operation is what its caller waits, and the library's work counts as processor time
/// of the driver. Its throughput is below that of the driver's own connections, which measure a server.
extension LoadTest {
    /// Below the limit of operations in flight of a client.
    private static let underWayMax = 50_000
    /// Retries documents as long as some can be stored.
    private static let loadingTimeoutSeconds = 30.0

    func runThroughClient(_ environment: Environment) throws(BenchError) -> Outcome {
        guard !workload.samplesPersistence else {
            throw BenchError(
                "how long changes stay unpersisted is watched on the driver's own connections: "
                    + "--no-client uses those"
            )
        }
        var settings = ClientSettings(
            bootstrap: [target.address],
            bucket: target.account.bucket,
            user: target.account.user,
            password: target.account.password
        )
        settings.trust = target.trust
        let client = try Client.opened(settings, environment)
        let underWay = min(workload.connections * workload.depth, Self.underWayMax)
        let load = SteadyLoad(
            SteadyLoad.Plan(
                workload: workload,
                rate: workload.rate,
                underWayMax: workload.rate > 0 ? Self.underWayMax : underWay,
                durability: nil,
                timeoutMilliseconds: 2_500
            ),
            client,
            environment
        )
        let lane = environment.network.lane(ofReactor: 0)
        var outcome = Outcome(workload: workload, target: target, underWay: underWay)
        if workload.preloads { outcome.loading = try fill(load, lane) }
        guard workload.seconds > 0 else { return outcome }
        lane.post { load.begin() }
        try wait(workload.warmUpSeconds, "warming up", load, lane)
        outcome.measured = try measure(load, lane)
        while lane.ask({ load.underWay }) > 0 { usleep(10_000) }
        return outcome
    }

    private func fill(
        _ load: SteadyLoad,
        _ lane: any Lane
    ) throws(BenchError) -> Outcome.Loading {
        let pids = target.serverPIDs
        let (start, use) = (Date.now, CPUUse.now(servers: pids))
        var last = (time: start, loaded: 0)
        lane.post { load.load() }
        while true {
            let (loaded, trouble) = lane.ask { (load.loaded, load.trouble) }
            if loaded == workload.keys { break }
            if loaded > last.loaded { last = (.now, loaded) }
            guard Date.now.timeIntervalSince(last.time) < Self.loadingTimeoutSeconds else {
                progress.clear()
                let reason = trouble.map { ": \($0)" } ?? ""
                throw BenchError("no document could be stored for half a minute\(reason)")
            }
            progress.show("loading", loaded, of: workload.keys)
            usleep(20_000)
        }
        let (seconds, end) = (Date.now.timeIntervalSince(start), CPUUse.now(servers: pids))
        progress.clear()
        return Outcome.Loading(
            documents: workload.keys,
            seconds: seconds,
            serverSeconds: Double(end.server - use.server) / 1e9
        )
    }

    private func measure(
        _ load: SteadyLoad,
        _ lane: any Lane
    ) throws(BenchError) -> Outcome.Measured {
        let pids = target.serverPIDs
        let start = lane.ask {
            load.countAnew()
            return Outcome.Reading(time: load.now, use: .now(servers: pids))
        }
        try wait(workload.seconds, "measuring", load, lane)
        let (end, tally) = lane.ask {
            load.stop()
            let reading = Outcome.Reading(time: load.now, use: .now(servers: pids))
            return (reading, Tally(load.tally, notBegun: load.skipped))
        }
        progress.clear()
        if tally.replies == 0, let example = tally.examples.values.first {
            throw BenchError("no operation succeeded: \(example)")
        }
        return Outcome.Measured(
            start: start,
            end: end,
            tally: tally,
            lagMax: 0,
            persistence: nil
        )
    }

    private func wait(
        _ seconds: Double,
        _ what: String,
        _ load: SteadyLoad,
        _ lane: any Lane
    ) throws(BenchError) {
        try wait(seconds, what) { () throws(BenchError) in
            UInt64(lane.ask { load.tally.succeeded })
        }
    }
}

extension Tally {
    /// The counts of a load through the client library.
    init(_ load: SteadyTally, notBegun: Int) {
        reads = load.reads
        writes = load.writes
        replies = UInt64(load.succeeded)
        misses = UInt64(load.misses)
        hits = reads.totalCount - misses
        stored = writes.totalCount
        wrongSizes = UInt64(load.wrongSizes)
        for (code, count) in load.errors { failures[code.rawValue] = UInt64(count) }
        for (code, text) in load.examples { examples[code.rawValue] = text }
        self.notBegun = UInt64(notBegun)
    }
}
