internal import DivanClient
internal import Histogram
internal import Seams
internal import Vocabulary

/// Measures from outside how far the first replica is behind, beside a running load.
///
/// A sample writes a document and, after the answer, polls the replica until it has the document: the
/// lag is the time between the two answers. It is too long by up to one request and its answer, and
/// never too short by more than the answer's transfer. The time of the last request is recorded
/// as well (`Found.questions`), because it is the resolution of the method.
///
/// - One request of a sample is in flight at a time.
/// - An abandoned sample counts with the time until it was abandoned.
final class ReplicationSampler: @unchecked Sendable {  // tidy:allow one reactor's, by its lane
    struct Found: Sendable {
        var lags = SteadyTally.histogram()
        /// The time of the request that found the document.
        var questions = SteadyTally.histogram()
        /// Samples whose write failed, which say nothing about the replica.
        var failed = 0
        var givenUp = 0
    }

    /// The number of keys that samples use in rotation.
    private static let keyCount = 4_096
    /// Nanoseconds between an answer and the next request, so that polling does not disturb the load.
    private static let pauseNanoseconds: UInt64 = 200_000
    private static let timeoutNanoseconds: UInt64 = 5_000_000_000

    private let client: Client
    private let environment: Environment
    private let lane: any Lane
    private let interval: UInt64
    private var number = 0
    private var nextDue: UInt64 = 0
    private var isRunning = false
    private(set) var underWay = 0
    private(set) var found = Found()

    init(perSecond: Double, _ client: Client, _ environment: Environment) {
        self.client = client
        self.environment = environment
        lane = environment.network.lane(ofReactor: 0)
        interval = UInt64(1e9 / perSecond)
    }

    private var now: UInt64 { environment.time.monotonicNanoseconds() }

    func begin() {
        isRunning = true
        nextDue = now
        pace()
    }

    func stop() { isRunning = false }

    private func pace() {
        guard isRunning else { return }
        while nextDue <= now {
            nextDue += interval
            sample()
        }
        lane.post(after: nextDue - min(now, nextDue)) { [self] in pace() }
    }

    private func sample() {
        underWay += 1
        number += 1
        let key = Array("lag:\(number % ReplicationSampler.keyCount)".utf8)
        client.set(key, Array("{\"sample\":\(number)}".utf8)) { [self] result in
            switch result {
            case .success(let written): ask(key, written.cas, since: now)
            case .failure:
                found.failed += 1
                underWay -= 1
            }
        }
    }

    private func ask(_ key: [UInt8], _ cas: CAS, since answered: UInt64) {
        let asked = now
        client.getReplica(key, number: 1) { [self] result in
            let time = now
            let isThere = if case .success(let there) = result { there.cas == cas } else { false }
            let isOver = !isThere && time - answered > ReplicationSampler.timeoutNanoseconds
            guard isThere || isOver else {
                lane.post(after: ReplicationSampler.pauseNanoseconds) { [self] in
                    ask(key, cas, since: answered)
                }
                return
            }
            if isOver { found.givenUp += 1 }
            underWay -= 1
            found.lags.record(time - answered)
            found.questions.record(time - asked)
        }
    }
}
