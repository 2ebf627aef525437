internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// Measures from outside how long changes stay unpersisted.
///
/// Ten times a second it takes the mutation token of the next answered SET, waits half a second,
/// and then polls with OBSERVE_SEQNO until the server reports the change as persisted. The report
/// has the largest time from the answer to that moment: an upper bound.
///
/// - The wait is necessary because a request about an unpersisted change makes a server commit at
///   once, so an early request would measure its own effect. The number of changes that were still
///   unpersisted at the first request is reported as well.
final class PersistenceSampler: @unchecked Sendable {  // tidy:allow one reactor's thread
    struct Outcome: Sendable {
        var samples = 0
        /// Changes that were not persisted at the first request.
        var late = 0
        var ageMax: UInt64 = 0
        /// Changes with an unknown state; they count from their answer until now.
        var pending = 0
    }

    private struct Sample {
        let node: Int
        let vBucket: VBucketID
        let uuid: UInt64
        let seqno: UInt64
        let answered: UInt64
        var wasAsked = false
    }

    static let tokenIntervalNanoseconds: UInt64 = 100_000_000
    private static let firstQuestionNanoseconds: UInt64 = 500_000_000
    private static let questionIntervalNanoseconds: UInt64 = 20_000_000

    /// Whether the driver must pass the token of the next SET to `take`.
    private(set) var isWanting = false
    private(set) var outcome = Outcome()
    private let driver: Driver
    private var observers: [Observer?]
    private var samples: [UInt32: Sample] = [:]
    private var lastNumber: UInt32 = 0
    private var isStopped = false

    init(_ driver: Driver) {
        self.driver = driver
        observers = Array(repeating: nil, count: driver.map.nodes.count)
    }

    /// The number of observers that have logged in.
    var readyCount: Int { observers.count { $0?.isReady ?? false } }

    func connect() {
        for (node, address) in driver.map.nodes.enumerated() {
            driver.environment.network.connect(
                to: address,
                connected: { port in
                    let observer = Observer(self, self.driver, port: port)
                    self.observers[node] = observer
                    port.wake()
                    return observer
                },
                failed: { self.driver.fail(BenchError($0.description)) }
            )
        }
    }

    func start() {
        outcome = Outcome()
        beat()
    }

    /// Stops sampling; open samples still count, with their present age.
    func stop() -> Outcome {
        isStopped = true
        isWanting = false
        var result = outcome
        result.pending = samples.count
        for sample in samples.values where sample.wasAsked {
            result.ageMax = max(result.ageMax, driver.now - sample.answered)
        }
        return result
    }

    /// Starts a sample with the token of the answer to `request`: vBucket UUID and seqno.
    func take(_ request: ByteView, token: ByteView, at time: UInt64, _ node: Int) {
        isWanting = false
        lastNumber &+= 1
        let number = lastNumber
        samples[number] = Sample(
            node: node,
            vBucket: FrameHeader(request).vBucket,
            uuid: token.bigEndian(at: 0, as: UInt64.self),
            seqno: token.bigEndian(at: 8, as: UInt64.self),
            answered: time
        )
        driver.lane.post(after: PersistenceSampler.firstQuestionNanoseconds) { self.ask(number) }
    }

    private func beat() {
        guard !isStopped else { return }
        isWanting = true
        driver.lane.post(after: PersistenceSampler.tokenIntervalNanoseconds) { self.beat() }
    }

    private func ask(_ number: UInt32) {
        guard !isStopped, let sample = samples[number] else { return }
        observers[sample.node]?.ask(number, sample.vBucket, sample.uuid)
    }

    fileprivate func answered(_ frame: Frame) {
        let number = frame.opaque
        guard var sample = samples[number] else { return }
        guard frame.header.statusNumber == 0, frame.value.count >= 27, frame.value[0] == 0 else {
            return driver.fail(BenchError("the server does not answer OBSERVE_SEQNO"))
        }
        let persisted = frame.value.bigEndian(at: 11, as: UInt64.self)
        let age = driver.now - sample.answered
        if persisted >= sample.seqno {
            samples[number] = nil
            outcome.samples += 1
            outcome.ageMax = max(outcome.ageMax, age)
            return
        }
        if !sample.wasAsked {
            outcome.late += 1
            sample.wasAsked = true
            samples[number] = sample
        }
        driver.lane.post(after: PersistenceSampler.questionIntervalNanoseconds) {
            self.ask(number)
        }
    }
}

/// A separate connection for the requests, so that they do not queue behind those of the load.
private final class Observer: ConnectionHandler {
    private(set) var isReady = false
    private let sampler: PersistenceSampler
    private let driver: Driver
    private let port: any ConnectionPort
    private var login: Login
    private let decoder = FrameDecoder()
    private var questions: [(UInt32, VBucketID, UInt64)] = []
    private var hasBegun = false

    init(_ sampler: PersistenceSampler, _ driver: Driver, port: any ConnectionPort) {
        self.sampler = sampler
        self.driver = driver
        self.port = port
        let nonce = driver.environment.entropy.hex(16)
        login = Login(driver.account, wantsTokens: true, nonce: nonce)
    }

    func ask(_ number: UInt32, _ vBucket: VBucketID, _ uuid: UInt64) {
        questions.append((number, vBucket, uuid))
        port.wake()
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if !hasBegun {
            hasBegun = true
            login.begin(output)
        }
        for (number, vBucket, uuid) in questions {
            withUnsafeBytes(of: uuid.bigEndian) { value in
                RequestEncoder.append(
                    .observeSeqno,
                    to: output,
                    vBucket: vBucket,
                    opaque: number,
                    value: ByteView(value)
                )
            }
        }
        questions = []
        return ReceiveProgress(consumed: 0, next: .receive)
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        var offset = 0
        while true {
            switch decoder.next(in: input.dropFirst(offset)) {
            case .incomplete(let needed):
                return ReceiveProgress(consumed: offset, next: .receive, needed: needed)
            case .valueTooBig, .invalid:
                driver.fail(BenchError("the server sent an invalid frame"))
                return ReceiveProgress(consumed: offset, next: .close)
            case .frame(let frame):
                offset += frame.byteCount
                if isReady {
                    sampler.answered(frame)
                    continue
                }
                do throws(BenchError) {
                    if case .done = try login.take(frame, output) { isReady = true }
                } catch {
                    driver.fail(error)
                    return ReceiveProgress(consumed: offset, next: .close)
                }
            }
        }
    }

    func broken(_ reason: String) { driver.fail(BenchError(reason)) }

    func closed() { driver.fail(BenchError("the server closed the observer's connection")) }
}
