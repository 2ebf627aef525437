internal import Bytes
internal import Foundation
internal import LinuxPlatform
internal import Seams
internal import Vocabulary

/// One test from connecting to the last answer, directed by the main thread.
struct LoadTest {
    struct Target: Sendable {
        var address: SocketAddress
        var dialect: Dialect
        var account: Login.Account
        var serverPIDs: [Int32]
        /// Believes the server over TLS; nil for a plain port.
        var trust: (any ServerTrust)?
        /// Whether to use the client library; nil: only if there are several nodes.
        var usesClient: Bool?
    }

    let workload: Workload
    let target: Target
    let progress: ProgressLine

    /// Runs the test in a separate environment with one reactor.
    func run() throws(BenchError) -> Outcome {
        let plain = LinuxEnvironment.make(reactors: 1, logLevel: .error).environment
        let environment = target.trust.map { plain.secured(by: $0) } ?? plain
        let map = try findMap(environment)
        if target.usesClient ?? (map.nodes.count > 1) { return try runThroughClient(plain) }
        let driver = Driver(
            workload,
            target.dialect,
            target.account,
            map: map,
            environment: environment
        )
        try connect(driver)
        let loading = workload.preloads ? try load(driver) : nil
        guard workload.seconds > 0 else {
            return Outcome(workload: workload, target: target, loading: loading)
        }
        try giveRings(driver)
        driver.onReactor { driver.begin(.running) }
        try wait(workload.warmUpSeconds, "warming up", driver)
        var outcome = try measure(driver)
        outcome.loading = loading
        // The process ends here, which closes the connections.
        return outcome
    }

    // MARK: Steps

    /// Requests the map from the first node, on a separate connection.
    private func findMap(_ environment: Environment) throws(BenchError) -> ServerMap {
        guard target.dialect == .couchbase else { return ServerMap(only: target.address) }
        let found = Guarded<Result<[UInt8], BenchError>?>(nil)
        let done = DispatchSemaphore(value: 0)
        let (account, nonce) = (target.account, environment.entropy.hex(16))
        let tell: @Sendable (Result<[UInt8], BenchError>) -> Void = { result in
            found.withLock { $0 = $0 ?? result }
            done.signal()
        }
        environment.network.connect(
            to: target.address,
            connected: { port in
                port.wake()
                return MapFinder(Login(account, wantsTokens: false, nonce: nonce), tell)
            },
            failed: { tell(.failure(BenchError($0.description))) }
        )
        guard done.wait(timeout: .now() + 15) == .success, let result = found.withLock({ $0 })
        else { throw BenchError("\(target.address) does not answer within 15 seconds") }
        let configuration = try result.get()
        let (host, isSecured) = (target.address.host, target.trust != nil)
        // Not inside the closure: it does not rethrow a typed error.
        let parsed: Result<ServerMap, BenchError> = configuration.withUnsafeBytes { buffer in
            do throws(BenchError) {
                let configuration = ByteView(buffer)
                return .success(
                    try ServerMap(configuration: configuration, host: host, isSecured: isSecured)
                )
            } catch {
                return .failure(error)
            }
        }
        return try parsed.get()
    }

    private func connect(_ driver: Driver) throws(BenchError) {
        driver.onReactor {
            driver.connect()
            guard driver.wantsTokens else { return }
            driver.sampler = PersistenceSampler(driver)
            driver.sampler?.connect()
        }
        let deadline = Date.now + 60
        while true {
            let (ready, observers) = driver.onReactor {
                (driver.readyCount, driver.sampler?.readyCount ?? driver.map.nodes.count)
            }
            try check(driver)
            if ready == workload.connections && observers == driver.map.nodes.count { return }
            guard Date.now < deadline else {
                throw BenchError("only \(ready) connections were ready within a minute")
            }
            usleep(5_000)
        }
    }

    private func load(_ driver: Driver) throws(BenchError) -> Outcome.Loading {
        let start = (driver.now, CPUUse.now(servers: target.serverPIDs))
        driver.onReactor { driver.begin(.loading) }
        while true {
            let (loaded, documents) = driver.onReactor {
                (driver.loadedCount, driver.loadedDocuments)
            }
            try check(driver)
            if loaded == workload.connections { break }
            progress.show("loading", documents, of: workload.keys)
            usleep(20_000)
        }
        let end = (driver.now, CPUUse.now(servers: target.serverPIDs))
        driver.onReactor { driver.phase = .idle }
        progress.clear()
        return Outcome.Loading(
            documents: workload.keys,
            seconds: Double(end.0 - start.0) / 1e9,
            serverSeconds: Double(end.1.server - start.1.server) / 1e9
        )
    }

    private func giveRings(_ driver: Driver) throws(BenchError) {
        progress.show("rendering requests")
        let rings = driver.map.nodes.indices.map { node in
            RequestRing(
                workload,
                driver.documents,
                target.dialect,
                map: driver.map,
                node: node,
                seed: UInt64(node) + 7
            )
        }
        progress.clear()
        driver.onReactor {
            for connection in driver.connections { connection.use(rings[connection.place.node]) }
        }
        try check(driver)
    }

    private func measure(_ driver: Driver) throws(BenchError) -> Outcome {
        let pids = target.serverPIDs
        let start = driver.onReactor {
            driver.resetTally()
            driver.sampler?.start()
            return Outcome.Reading(time: driver.now, use: .now(servers: pids))
        }
        try wait(workload.seconds, "measuring", driver)
        let (end, tally, lag, persistence) = driver.onReactor {
            let reading = Outcome.Reading(time: driver.now, use: .now(servers: pids))
            driver.phase = .stopping
            return (reading, driver.tally, driver.lagMax, driver.sampler?.stop())
        }
        progress.clear()
        return Outcome(
            workload: workload,
            target: target,
            measured: Outcome.Measured(
                start: start,
                end: end,
                tally: tally,
                lagMax: lag,
                persistence: persistence
            )
        )
    }

    private func wait(_ seconds: Double, _ what: String, _ driver: Driver) throws(BenchError) {
        try wait(seconds, what) { () throws(BenchError) in
            try check(driver)
            return driver.onReactor { driver.tally.replies }
        }
    }

    /// Waits, shows the rate, and returns early after an error.
    func wait(
        _ seconds: Double,
        _ what: String,
        replies look: () throws(BenchError) -> UInt64
    ) throws(BenchError) {
        let start = Date.now
        var last = (time: start, replies: try look())
        while true {
            let left = seconds - Date.now.timeIntervalSince(start)
            guard left > 0 else { return }
            usleep(UInt32(min(left, 0.5) * 1_000_000))
            let (replies, time) = (try look(), Date.now)
            let rate = Double(replies - last.replies) / time.timeIntervalSince(last.time)
            progress.show(what, rate: rate, elapsed: time.timeIntervalSince(start), of: seconds)
            last = (time, replies)
        }
    }

    private func check(_ driver: Driver) throws(BenchError) {
        let failure = driver.onReactor { driver.failure }
        if let failure {
            progress.clear()
            throw failure
        }
    }
}

extension Driver {
    /// Runs `body` on the reactor and waits for what it returns.
    func onReactor<Result: Sendable>(_ body: @escaping @Sendable () -> Result) -> Result {
        let place = Guarded<Result?>(nil)
        let done = DispatchSemaphore(value: 0)
        lane.post {
            let result = body()
            place.withLock { $0 = result }
            done.signal()
        }
        done.wait()
        guard let result = place.withLock({ $0 }) else {
            preconditionFailure("the reactor has signalled that it is done")
        }
        return result
    }
}
