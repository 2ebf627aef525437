internal import Bytes
internal import DivanClient
internal import Seams
internal import Vocabulary

/// A load that continues through failures of the cluster: operations through the client library, at
/// a rate that does not wait for answers (open loop), or a fixed number at a time (closed loop).
///
/// Unlike the load of `LoadTest`, it renders nothing ahead, and its purpose is to count errors.
final class SteadyLoad: @unchecked Sendable {  // tidy:allow one reactor's thread, by its lane
    struct Plan: Sendable {
        var workload: Workload
        /// Operations a second; 0 for a closed loop.
        var rate: Double
        /// Operations in flight: always in a closed loop, at most in an open one.
        var underWayMax: Int
        var durability: DurabilityLevel?
        var timeoutMilliseconds: UInt64
    }

    private let plan: Plan
    private let client: Client
    private let lane: any Lane
    private let environment: Environment
    private let documents: Documents
    private var chooser: KeyChooser
    private let scratch = ByteWriter()
    private var options = WriteOptions()
    private(set) var tally: SteadyTally
    private(set) var underWay = 0
    /// Open loop: operations that were due but not started, because too many were in flight.
    private(set) var skipped = 0
    private(set) var loaded = 0
    /// Why a document could not be stored yet; the write is retried.
    private(set) var trouble: ClientError?
    private var nextToLoad = 0
    private var nextDue = 0.0
    private var isRunning = false

    init(_ plan: Plan, _ client: Client, _ environment: Environment) {
        self.plan = plan
        self.client = client
        self.environment = environment
        lane = environment.network.lane(ofReactor: 0)
        documents = Documents(plan.workload)
        chooser = KeyChooser(plan.workload, seed: 11)
        options.durability = plan.durability
        options.timeout = .milliseconds(plan.timeoutMilliseconds)
        tally = SteadyTally(keys: plan.workload.keys, start: 0)
    }

    var now: UInt64 { environment.time.monotonicNanoseconds() }

    // MARK: Loading

    /// Stores every document once, 256 at a time.
    func load() { for _ in 0..<min(256, plan.workload.keys) { loadNext() } }

    private func loadNext() {
        guard nextToLoad < plan.workload.keys else { return }
        let key = nextToLoad
        nextToLoad += 1
        load(key)
    }

    private func load(_ key: Int) {
        client.set(name(of: key), value(key &* 7_919 & 0x3fff_ffff)) { [self] result in
            if case .failure(let error) = result {
                trouble = error
                return load(key)
            }
            loaded += 1
            loadNext()
        }
    }

    // MARK: Running

    func begin() {
        isRunning = true
        countAnew()
        nextDue = Double(now)
        if plan.rate > 0 {
            pace()
        } else {
            for _ in 0..<plan.underWayMax { start(due: now) }
        }
    }

    /// Resets the counts.
    func countAnew() {
        tally = SteadyTally(keys: plan.workload.keys, start: now)
        skipped = 0
    }

    /// Starts no more operations; those in flight still count.
    func stop() { isRunning = false }

    func end() -> SteadyTally {
        tally.end(at: now)
        return tally
    }

    /// Timers have a resolution of a millisecond: a delay of up to two is not counted as latency.
    private static let punctual: UInt64 = 2_000_000

    private func pace() {
        guard isRunning else { return }
        let time = now
        while nextDue <= Double(time) {
            let due = UInt64(nextDue)
            let counted = time - due > SteadyLoad.punctual ? due : time
            if underWay < plan.underWayMax { start(due: counted) } else { skipped += 1 }
            nextDue += 1e9 / plan.rate
        }
        lane.post(after: 1_000_000) { [self] in pace() }
    }

    private func start(due: UInt64) {
        let key = chooser.next()
        let isWrite = chooser.writes(percent: plan.workload.writePercent)
        underWay += 1
        if isWrite {
            client.set(name(of: key), value(chooser.value()), options: options) { [self] result in
                ended(key, true, due, result.map { _ in () })
            }
        } else {
            client.get(name(of: key), options.timeout) { [self] result in
                tally.look(at: result, bytes: plan.workload.valueBytes)
                ended(key, false, due, result.map { _ in () })
            }
        }
    }

    private func ended(
        _ key: Int,
        _ isWrite: Bool,
        _ due: UInt64,
        _ result: Result<Void, ClientError>
    ) {
        underWay -= 1
        var failure: ClientError?
        // A key that was never stored is a success.
        if case .failure(let error) = result, error.code != .notFound { failure = error }
        tally.note(key: key, isWrite: isWrite, due: due, at: now, failure)
        guard isRunning, plan.rate == 0 else { return }
        // After an immediate error the loop would spin.
        if failure == nil {
            start(due: now)
        } else {
            lane.post(after: 1_000_000) { [self] in if isRunning { start(due: now) } }
        }
    }

    private func name(of key: Int) -> [UInt8] {
        scratch.removeAll()
        documents.appendKey(key, to: scratch)
        return scratch.bytes
    }

    private func value(_ choice: Int) -> [UInt8] {
        scratch.removeAll()
        documents.appendValue(choice, to: scratch)
        return scratch.bytes
    }
}
