internal import Bytes
internal import Seams
internal import Wire

/// One connection of the load: logs in, stores its share of the documents, then sends requests from
/// its ring and matches the answers.
///
/// - Answers arrive in the order of requests, so the next expected answer is a place in the ring.
/// - Nothing is allocated while requests run.
final class DriverConnection: ConnectionHandler {
    private enum Stage {
        case login(Login)
        case ready
    }

    let port: any ConnectionPort
    let driver: Driver
    let place: Driver.Place
    private var stage: Stage
    private let decoder = FrameDecoder()

    // The ring.
    private var ring: RequestRing?
    private var sendPlace = 0
    private var expectPlace = 0
    /// The send times of requests in flight, oldest at `stampTail`.
    private let stamps: UnsafeMutablePointer<UInt64>
    private let stampMask: Int
    private var stampHead = 0
    private var stampTail = 0
    /// Open loop: requests that are due but not sent.
    private var dueCount = 0

    // Loading.
    var nextKey: Int
    var loadsUnderWay = 0
    /// Keys whose SET was answered "try again".
    var refused: [Int] = []
    var isWaitingToRetry = false
    var hasLoaded = false

    init(_ driver: Driver, _ place: Driver.Place, port: any ConnectionPort) {
        self.driver = driver
        self.place = place
        self.port = port
        nextKey = place.number
        if driver.dialect == .couchbase {
            let nonce = driver.environment.entropy.hex(16)
            stage = .login(Login(driver.account, wantsTokens: driver.wantsTokens, nonce: nonce))
        } else {
            stage = .ready
        }
        // The limit of requests in flight in an open loop, above which the server counts as
        // overrun.
        let capacity = driver.workload.rate > 0 ? 1 << 16 : 1 << 12
        stamps = .allocate(capacity: capacity)
        stampMask = capacity - 1
    }

    deinit { stamps.deallocate() }

    /// Uses the requests of `ring`; each connection begins at a different place.
    func use(_ ring: RequestRing) {
        self.ring = ring
        sendPlace = (ring.count / place.of * place.number) % ring.count
        expectPlace = sendPlace
    }

    // MARK: ConnectionHandler

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        switch stage {
        case .login(let login): login.begin(output)
        case .ready:
            switch driver.phase {
            case .idle: driver.readyCount += 1
            case .loading: resumeLoading(output)
            case .running:
                if driver.workload.rate > 0 {
                    sendDue(output)
                } else if stampHead == stampTail {
                    send(driver.workload.depth, at: driver.now, output)
                }
            case .stopping: break
            }
        }
        return ReceiveProgress(consumed: 0, next: .receive)
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        if case .login(let login) = stage { return receiveLogin(login, input, output) }
        if driver.phase == .loading { return receiveLoaded(input, output) }
        return receiveReplies(input, output)
    }

    func broken(_ reason: String) { driver.fail(BenchError(reason)) }

    func closed() {
        driver.fail(BenchError("the server closed a connection"))
    }

    /// Ends the test after an invalid answer.
    func giveUp(_ reason: String) -> ReceiveProgress {
        driver.fail(BenchError(reason))
        return ReceiveProgress(consumed: 0, next: .close)
    }

    private func receiveLogin(
        _ login: Login,
        _ input: ByteView,
        _ output: ByteWriter
    ) -> ReceiveProgress {
        switch decoder.next(in: input) {
        case .incomplete(let needed):
            return ReceiveProgress(consumed: 0, next: .receive, needed: needed)
        case .frame(let frame):
            do throws(BenchError) {
                var login = login
                switch try login.take(frame, output) {
                case .more: stage = .login(login)
                case .done:
                    stage = .ready
                    driver.readyCount += 1
                }
            } catch {
                return giveUp(error.description)
            }
            return ReceiveProgress(consumed: frame.byteCount, next: .receive)
        case .valueTooBig, .invalid: return giveUp("the server sent an invalid frame")
        }
    }

    // MARK: The measured path

    /// Open loop: a batch of requests is due now, regardless of those in flight.
    func isDue(at time: UInt64) {
        let depth = driver.workload.depth
        guard stampHead - stampTail + depth <= stampMask else {
            return driver.fail(BenchError("the server cannot keep up with the rate"))
        }
        stamp(depth, time)
        if dueCount == 0 { port.wake() }
        dueCount += depth
    }

    private func sendDue(_ output: ByteWriter) {
        guard let ring, dueCount > 0 else { return }
        sendPlace = ring.append(dueCount, from: sendPlace, to: output)
        dueCount = 0
    }

    private func send(_ count: Int, at time: UInt64, _ output: ByteWriter) {
        guard let ring, count > 0 else { return }
        stamp(count, time)
        sendPlace = ring.append(count, from: sendPlace, to: output)
    }

    private func stamp(_ count: Int, _ time: UInt64) {
        for _ in 0..<count {
            stamps[stampHead & stampMask] = time
            stampHead += 1
        }
    }

    private func receiveReplies(_ input: ByteView, _ output: ByteWriter) -> ReceiveProgress {
        guard let ring else { return giveUp("the server sent an answer without a request") }
        let (dialect, now) = (driver.dialect, driver.now)
        let valueBytes = driver.workload.valueBytes
        var (offset, needed, answered) = (0, 0, 0)
        var group = Group()
        var (expect, tail) = (expectPlace, stampTail)
        scanning: while true {
            switch dialect.scan(input.dropFirst(offset)) {
            case .incomplete(let count):
                needed = count
                break scanning
            case .invalid: return giveUp("the server's answer makes no sense")
            case .reply(let reply):
                guard tail < stampHead, reply.opaque.map({ $0 == UInt32(expect) }) ?? true else {
                    return giveUp("the server answered out of order")
                }
                let sent = stamps[tail & stampMask]
                if sent != group.sent { group.move(to: sent, now, &driver.tally) }
                let isWrite = ring.isWrite(expect)
                if reply.status != 0 {
                    group.count(failure: reply.status, isWrite, &driver.tally)
                } else if isWrite {
                    group.stored += 1
                    if reply.extrasCount == 16, let sampler = driver.sampler, sampler.isWanting {
                        let extras = input.slice(offset + FrameHeader.byteCount, 16)
                        sampler.take(ring.request(expect), token: extras, at: now, place.node)
                    }
                } else {
                    group.hits += 1
                    if reply.valueCount != valueBytes { driver.tally.wrongSizes += 1 }
                }
                offset += reply.byteCount
                tail += 1
                answered += 1
                expect += 1
                if expect == ring.count { expect = 0 }
            }
        }
        group.move(to: 0, now, &driver.tally)
        driver.tally.replies += UInt64(answered)
        (expectPlace, stampTail) = (expect, tail)
        if driver.phase == .running && driver.workload.rate == 0 { send(answered, at: now, output) }
        return ReceiveProgress(consumed: offset, next: .receive, needed: needed)
    }
}

/// Answers to requests that were sent at the same time are timed together.
private struct Group {
    var sent: UInt64 = 0
    var hits: UInt64 = 0
    var stored: UInt64 = 0
    private var others: (reads: UInt64, writes: UInt64) = (0, 0)

    @inline(__always)
    mutating func move(to next: UInt64, _ now: UInt64, _ tally: inout Tally) {
        let (reads, writes) = (hits + others.reads, stored + others.writes)
        if reads > 0 { tally.recordReads(now - sent, count: reads) }
        if writes > 0 { tally.recordWrites(now - sent, count: writes) }
        tally.hits += hits
        tally.stored += stored
        self = Group()
        sent = next
    }

    mutating func count(failure status: UInt16, _ isWrite: Bool, _ tally: inout Tally) {
        if isWrite { others.writes += 1 } else { others.reads += 1 }
        if status == Status.keyNotFound.rawValue && !isWrite {
            tally.misses += 1
        } else {
            tally.errors[status, default: 0] += 1
        }
    }
}
