package import Bytes
internal import Engine
package import Seams
internal import Vocabulary
internal import Wire

/// One client's connection: decodes frames and encodes answers, run to completion on its reactor.
///
/// All complete frames of a read are processed together: first their keys are hashed, then their
/// slots and items are prefetched, and only then are they executed, so that the cache misses of a
/// deep pipeline overlap. If a request has to wait, for example for the disk, and the client agreed
/// to unordered execution, the connection parks the request and executes later ones. Otherwise the
/// request stays at the front of the input, and the connection pauses its input until the answer.
///
/// - Answers are sent in the order of requests unless unordered execution was agreed on.
/// - No method blocks. A connection keeps no part of a request except the frame of a parked one.
package final class Connection: ConnectionHandler {
    /// The outcome of one attempt at a request.
    enum Execution {
        /// The request is answered, or parked with a copy of its frame.
        case done
        /// The request is not answered yet, and later requests have to wait for it.
        case blocked
        /// The connection has to close.
        case close
    }

    /// The times of requests that have waited.
    private struct Waits {
        var lastTicket: UInt64 = 0
        /// Of the request at the front of the input, from its wait until its next attempt.
        var blocked: RequestWait?
        /// Of the request that is executed again now.
        var resumed: RequestWait?
    }

    private static let parkedMax = 128
    /// Higher than `parkedMax`: a durable write waits for other nodes, which takes longer than a
    /// disk read.
    private static let parkedWritesMax = 1_024

    let port: any ConnectionPort
    let service: DocumentService
    let context: LaneContext
    let mailbox: Mailbox
    /// Whether the client uses the plain memcached listener: it needs no login, and the connection
    /// computes the vBucket number of each key.
    let isMemcachedListener: Bool
    private let commands: [Command?]

    // Session.
    var features = FeatureSet() {
        didSet { applyFeatures() }
    }
    var agent = ""
    var login = Login.anonymous {
        didSet {
            endSender()
            decoder = FrameDecoder()
            lostBucketName = nil
            isElsewhere = false
            access.revision = 0
            stranger.recordLogin(login, of: self)
        }
    }
    var bucket: OpenBucket? {
        didSet { recordSelection(oldValue) }
    }
    var access = ConnectionAccess()
    let accessRevision: SharedWord
    /// Notes on the client's logins, and on the connection until the first one.
    var stranger = LoginNotes()
    /// The sources of messages that are sent without a request.
    var pushes = Pushes()
    var isJSONAgreed = false
    var isTracingAgreed = false
    var isTokenAgreed = false
    /// Whether the client agreed to answers in another order than that of its requests.
    var isUnordered = false
    /// Whether the selected bucket has moved to other nodes.
    var isElsewhere = false
    /// The name of the selected bucket after its deletion: a bucket may be created again under it.
    var lostBucketName: String?

    // The stream.
    /// Finds frames in the input; replaced at a login, which lifts its bound.
    var decoder = FrameDecoder(frameBytesMax: Limits.frameBytesMaxBeforeLogin)
    private var discarding = 0
    private var parked: [Parked] = []
    private var parkedBytes = 0 {
        didSet { countParked(parkedBytes, before: oldValue) }
    }
    /// Whether a parked request is being executed again: its frame is not in the input.
    private var isResuming = false
    /// Results for waiting requests, parked or blocked, that are not handled yet.
    private var results: ArraySlice<Mailbox.WorkResult> = []
    /// The ticket of the request at the front of the input while it waits.
    private var blockedTicket: UInt64?
    private var waits = Waits()
    /// The result for the request that had `blockedTicket`, until its next attempt.
    private var resumption: Completion?

    // The turn.
    var wallNanoseconds: UInt64 = 0
    /// Whether this turn has an answer that is valid only while the lease holds.
    var isBoundByLease = false
    /// Whether the lease had expired when the turn began.
    var isWithoutLease = false
    var turnStart: UInt64 = 0
    /// The counters of the selected bucket; nil without one.
    var traffic: TrafficRow?
    var output: ByteWriter

    package init(port: any ConnectionPort, service: DocumentService, isMemcachedListener: Bool) {
        self.port = port
        self.service = service
        self.isMemcachedListener = isMemcachedListener
        context = service.contexts[port.reactor]
        mailbox = Mailbox(port: port)
        commands = Command.table
        accessRevision = service.accounts.word
        output = context.scratch
        if isMemcachedListener {
            login = .plain
            decoder = FrameDecoder()
        }
        service.connectionCount.add(1)
        if !isMemcachedListener { stranger.enter(self) }
    }

    package func closed() {
        endSubscription()
        endSender()
        service.connectionCount.add(-1)
        stranger.leave(service)
        bucket = nil
        parked = []
        parkedBytes = 0
        results = []
    }

    var turn: ExecutionContext { context.turn(wallNanoseconds) }

    // MARK: ConnectionHandler

    package func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        beginTurn(output)
        let progress =
            results.isEmpty && blockedTicket == nil ? process(input) : processInput(input)
        return endTurn(pushes.isStreaming ? sendChanges(progress) : progress)
    }

    package func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        beginTurn(output)
        results += mailbox.takeAll()
        if subscription != nil { pushMap() }
        let progress = processInput(input)
        return endTurn(pushes.isStreaming ? sendChanges(progress) : progress)
    }

    /// Resumes waiting requests that have results while the output has room, then decodes the
    /// input.
    private func processInput(_ input: ByteView) -> ReceiveProgress {
        while let result = results.popFirst() {
            if result.ticket == blockedTicket {
                blockedTicket = nil
                resumption = result.completion
            } else if let index = parked.firstIndex(where: { $0.ticket == result.ticket }) {
                let request = parked.remove(at: index)
                parkedBytes -= request.frame.count
                guard resume(request, with: result.completion) else {
                    return ReceiveProgress(consumed: 0, next: .close)
                }
            }
            if isOutputFull {
                return ReceiveProgress(consumed: 0, next: .drain)
            }
        }
        guard blockedTicket == nil else { return ReceiveProgress(consumed: 0, next: .pause) }
        return process(input)
    }

    private func beginTurn(_ output: ByteWriter) {
        self.output = output
        wallNanoseconds = context.wallNanoseconds()
        if isTracingAgreed { turnStart = context.monotonicNanoseconds() }
        if service.lease.end != .max { beginLeasedTurn() }
        if isMemcachedListener, service.plain.isRefusing { bucket = nil }
        if bucket?.isRetired ?? (isMemcachedListener || lostBucketName != nil) { findBucketAgain() }
    }

    // MARK: Frames

    private func process(_ input: ByteView) -> ReceiveProgress {
        var offset = 0
        while true {
            if discarding > 0 {
                let skipped = min(discarding, input.count - offset)
                offset += skipped
                discarding -= skipped
                if discarding > 0 { return ReceiveProgress(consumed: offset, next: .receive) }
            }
            let (count, stop) = gather(input.dropFirst(offset))
            if count > 0 {
                if let progress = execute(count, of: input, &offset) { return progress }
                continue
            }
            switch stop {
            case .frame: continue
            case .incomplete(let needed):
                return ReceiveProgress(consumed: offset, next: .receive, needed: needed)
            case .valueTooBig(let header):
                answer(.tooBig, to: header.replyTo, because: "A value has at most 20 MiB.")
                discarding = header.frameCount
            case .invalid(.tooLong) where login == .anonymous && becomeGuestOfDefault():
                // A password-less default bucket needs no login, so the bound before login does not
                // apply.
                continue
            case .invalid(let error):
                refuse(error)
                return ReceiveProgress(consumed: input.count, next: .close)
            }
        }
    }

    /// Executes the gathered frames.
    ///
    /// - Returns: The progress to report; nil if decoding can continue.
    private func execute(
        _ count: Int,
        of input: ByteView,
        _ offset: inout Int
    ) -> ReceiveProgress? {
        for index in 0..<count {
            let frame = context.frames[index]
            let hash = context.hashes[index]
            // A blocked request is at the front of the input, so only the first frame can be a
            // resumed one.
            let execution =
                index == 0
                ? attempt(frame, hash: hash) : execute(frame, hash: hash, completion: nil)
            switch execution {
            case .done:
                offset += frame.byteCount
                if frame.header.isRequest { context.tally.add(frame.header) }
            case .blocked: return ReceiveProgress(consumed: offset, next: .pause)
            case .close:
                return ReceiveProgress(consumed: offset + frame.byteCount, next: .close)
            }
            if isOutputFull, offset < input.count {
                return ReceiveProgress(consumed: offset, next: .drain)
            }
        }
        return nil
    }

    // MARK: One request

    /// Executes the request at the front of the input; the duration of a resumed request counts
    /// from its arrival.
    @inline(__always)
    private func attempt(_ frame: Frame, hash: UInt64) -> Execution {
        guard let completion = resumption else {
            return execute(frame, hash: hash, completion: nil)
        }
        resumption = nil
        let (blocked, ticket) = (exchange(&waits.blocked, with: nil), waits.lastTicket)
        let execution = execute(frame, hash: hash, after: completion, blocked)
        if case .done = execution {
            endAdmission(completion)
            if ticket == waits.lastTicket {
                context.tally.remove(context.tally.kind(of: frame.header))
            }
        }
        return execution
    }

    /// Executes a request that has waited; its duration counts from its arrival.
    private func execute(
        _ frame: Frame,
        hash: UInt64,
        after completion: Completion,
        _ wait: RequestWait?
    ) -> Execution {
        guard var wait else { return execute(frame, hash: hash, completion: completion) }
        let now = context.monotonicNanoseconds()
        wait.begin(.execution, at: now, cause: completion.cause)
        let (start, ticket) = (turnStart, waits.lastTicket)
        turnStart = wait.start
        waits.resumed = wait
        let execution = execute(frame, hash: hash, completion: completion)
        waits.resumed = nil
        turnStart = start
        // Otherwise it waits again.
        if ticket == waits.lastTicket { record(wait) }
        return execution
    }

    /// Ends the reservation of room for a write that has been attempted.
    private func endAdmission(_ completion: Completion) {
        if completion.isRoomMade { bucket?.pager.endAdmission() }
    }

    private func execute(_ frame: Frame, hash: UInt64, completion: Completion?) -> Execution {
        let header = frame.header
        guard header.isRequest else {
            // Ignore responses that were not requested. A client must not send server requests.
            if pushes.isStreaming { recordAnswer(frame) }
            return header.magic == .serverRequest ? .close : .done
        }
        guard let command = commands[Int(header.opcodeByte)] else {
            answer(.unknownCommand, to: frame.replyTo)
            return .done
        }
        guard command.fits(header) else {
            answer(.invalid, to: frame.replyTo, because: "Invalid key, extras or value length.")
            return .done
        }
        var framing = FramingExtras()
        if header.framingCount > 0 {
            switch FramingExtras.parse(frame.framing) {
            case .parsed(let parsed): framing = parsed
            case .unknown: return refuse(frame, .unknownFrameInfo)
            case .levelInvalid: return refuse(frame, .durabilityInvalidLevel)
            case .malformed: return refuse(frame, .invalid)
            }
            if let refusal = refusal(of: framing, command) { return refuse(frame, refusal) }
        }
        let request = CommandContext(frame: frame, hash: hash, command: command, framing: framing)
        if completion != nil, answersDecided(request, completion) { return .done }
        // Parked requests are executed under the login and the bucket with which they were sent, so
        // a session change waits for them. The rare conditions precede `parked`, because Swift
        // checks each read of that property for exclusive access at run time.
        if framing.isBarrier || command.changesSession, !parked.isEmpty { return .blocked }
        guard command.access == .anyConnection || login != .anonymous || becomeGuestOfDefault()
        else {
            return refuse(frame, .accessDenied)
        }
        guard command.access != .bucketUser || bucket != nil else {
            if isMemcachedListener, service.plain.isRefusing {
                refusePlainClient(frame)
                return .done
            }
            refuseWithoutBucket(request)
            return .done
        }
        guard command.access == .anyConnection || isPermitted(command) else {
            return refuseAccess(request)
        }
        guard header.datatype.isPlain else { return executeTyped(request, completion) }
        return dispatch(request, completion)
    }

    private func refuse(_ frame: Frame, _ status: Status) -> Execution {
        answer(status, to: frame.replyTo)
        return .done
    }

    // MARK: Waiting

    /// Suspends a request until `start` reports its completion.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - phase: What it waits for.
    ///   - start: Starts the work that the request waits for. The work calls the closure from any
    ///     lane; only the first call counts.
    /// - Returns: The execution to return: the request is parked, or blocks the ones after it.
    func wait(
        _ request: CommandContext,
        _ phase: CommandPhase,
        start: (@escaping @Sendable (Completion) -> Void) -> Void
    ) -> Execution {
        waits.lastTicket += 1
        let ticket = waits.lastTicket
        let now = context.monotonicNanoseconds()
        var wait = waits.resumed ?? firstWait(of: request, at: now)
        wait.begin(phase, at: now)
        let isParked = isResuming || mayPark(request)
        if isParked {
            // The caller counts a request of the input as done.
            if !isResuming { context.tally.remove(wait.kind) }
            let frame = request.frame.whole.bytes
            parked.append(Parked(ticket: ticket, frame: frame, wait: wait))
            parkedBytes += request.frame.byteCount
        } else {
            blockedTicket = ticket
            waits.blocked = wait
        }
        start { [mailbox] completion in mailbox.put(completion, ticket: ticket) }
        return isParked ? .done : .blocked
    }

    /// Whether later requests may overtake a request: true only for requests for single documents,
    /// within the bounds of number and bytes.
    private func mayPark(_ request: CommandContext) -> Bool {
        isUnordered && request.command.isKeyed && !request.framing.isBarrier
            && parked.count
                < (request.command.isDurable
                    ? Connection.parkedWritesMax : Connection.parkedMax)
            && mayPark(bytes: parkedBytes + request.frame.byteCount)
    }

    /// Executes a parked request again.
    ///
    /// - Returns: False if the connection has to close.
    private func resume(_ request: Parked, with completion: Completion) -> Bool {
        isResuming = true
        defer { isResuming = false }
        return request.frame.withUnsafeBytes { buffer in
            guard case .frame(let frame) = decoder.next(in: ByteView(buffer)) else {
                preconditionFailure("a parked frame is whole")
            }
            let hash = service.hash(frame.key)
            let outcome = execute(frame, hash: hash, after: completion, request.wait)
            if case .close = outcome { return false }
            endAdmission(completion)
            return true
        }
    }
}
