internal import DivanClient
internal import Seams
internal import Vocabulary

/// Writes and reads each of its keys alternately, and checks the results of reads.
final class CheckLoad: @unchecked Sendable {  // tidy:allow one reactor's thread, by its lane
    struct Found: Sendable {
        var writes = 0
        var reads = 0
        var refused: [ClientError.Code: Int] = [:]
        var examples: [ClientError.Code: String] = [:]
        var faults: [(key: String, fault: CheckedKey.Fault)] = []
        var slowestNanoseconds: UInt64 = 0
        /// Keys that could not be read at the end.
        var unread = 0

        mutating func refuse(_ error: ClientError) {
            refused[error.code, default: 0] += 1
            examples[error.code] = error.description
        }
    }

    private let client: Client
    private let lane: any Lane
    private let environment: Environment
    private var keys: [CheckedKey]
    private var options = WriteOptions()
    private let pauseNanoseconds: UInt64
    private var isStopped = false
    private(set) var underWay = 0
    private(set) var found = Found()

    init(
        keys: [String],
        rate: Double,
        level: DurabilityLevel?,
        timeoutMilliseconds: UInt64,
        _ client: Client,
        _ environment: Environment
    ) {
        self.client = client
        self.environment = environment
        lane = environment.network.lane(ofReactor: 0)
        self.keys = keys.map(CheckedKey.init)
        options.durability = level
        options.timeout = .milliseconds(timeoutMilliseconds)
        pauseNanoseconds = UInt64(Double(keys.count) / rate * 1e9)
    }

    private var now: UInt64 { environment.time.monotonicNanoseconds() }

    func begin() {
        for key in keys.indices {
            underWay += 1
            // Spread over one round.
            lane.post(after: pauseNanoseconds / UInt64(keys.count) * UInt64(key)) { [self] in
                write(key)
            }
        }
    }

    private func ended() { underWay -= 1 }

    /// Ends the load of each key with its next answer.
    func stop() { isStopped = true }

    private func write(_ key: Int) {
        guard !isStopped else { return ended() }
        let start = now
        let value = keys[key].write()
        client.set(Array(keys[key].name.utf8), value, options: options) { [self] result in
            switch result {
            case .success:
                keys[key].succeeded()
                found.writes += 1
            case .failure(let error): found.refuse(error)
            }
            rest(since: start) { [self] in read(key) }
        }
    }

    private func read(_ key: Int) {
        guard !isStopped else { return ended() }
        let start = now
        client.get(Array(keys[key].name.utf8), options.timeout) { [self] result in
            evaluate(key, result)
            rest(since: start) { [self] in write(key) }
        }
    }

    /// Returns false if the read had no answer.
    @discardableResult
    private func evaluate(_ key: Int, _ result: Result<Document, ClientError>) -> Bool {
        var value: [UInt8]?
        switch result {
        case .success(let document): value = document.value
        case .failure(let error) where error.code == .notFound: value = nil
        case .failure(let error):
            found.refuse(error)
            return false
        }
        found.reads += 1
        if let fault = keys[key].found(value) { found.faults.append((keys[key].name, fault)) }
        return true
    }

    private func rest(since start: UInt64, _ next: @escaping @Sendable () -> Void) {
        let took = now - start
        found.slowestNanoseconds = max(found.slowestNanoseconds, took)
        // After an immediate error the loop would spin.
        lane.post(after: max(pauseNanoseconds &- min(took, pauseNanoseconds), 1_000_000), next)
    }

    /// Reads every key once more, each until `deadline` (monotonic nanoseconds).
    func readAll(until deadline: UInt64) {
        for key in keys.indices {
            underWay += 1
            readLast(key, deadline)
        }
    }

    private func readLast(_ key: Int, _ deadline: UInt64) {
        client.get(Array(keys[key].name.utf8), options.timeout) { [self] result in
            if evaluate(key, result) { return ended() }
            guard now < deadline else {
                found.unread += 1
                return ended()
            }
            lane.post(after: 50_000_000) { [self] in readLast(key, deadline) }
        }
    }
}
