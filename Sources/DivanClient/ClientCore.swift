internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// All that a client knows and does, on its one lane: operations, nodes, the map, the clock.
///
/// The pure parts decide (`KeyRouter`, `RetryPolicy`, `ClusterMapCache`, `ConnectionMachine`); this
/// carries out. Every entry comes through the lane: calls of the program, events of connections,
/// the one timer.
///
/// - An operation is in exactly one place (`Operation.Stage`) until it is over.
/// - Nothing is decided by the order of a dictionary: a simulation must repeat itself.
final class ClientCore: @unchecked Sendable {  // tidy:allow its state belongs to its lane
    /// What comes due.
    enum Due {
        case deadline(operation: UInt64)
        case rested(operation: UInt64, turn: UInt64)
        case paused(number: UInt64)
        case connect(ClusterNode)
        case bootstrap
        case openDeadline
        case look
    }

    /// Whether there was a map yet.
    enum Life {
        case new
        case opening(done: @Sendable (Result<Void, ClientError>) -> Void)
        case open
        case closed
    }

    let settings: ClientSettings
    let login: Handshake.Login
    let environment: Environment
    let lane: any Lane
    var life = Life.new
    var cache: ClusterMapCache
    /// In the order in which they were met.
    var nodes: [ClusterNode] = []
    var operations: [UInt64: Operation] = [:]
    var bytesUnderWay = 0
    var lines = DocumentLines()
    /// What goes on after a wait: the operations that are made of several.
    private var pauses: [UInt64: @Sendable () -> Void] = [:]
    /// When a map was last asked for, because of trouble or because time had passed.
    var askedForMap: UInt64 = 0
    var nextToAsk = 0
    var nextBootstrap = 0
    /// Of operations, attempts and waits.
    private var numbers: UInt64 = 0
    private var agenda = Agenda<Due>()
    private var timer: (time: UInt64, handle: LaneTimer)?

    init(_ settings: ClientSettings, environment: Environment, lane: any Lane) {
        self.settings = settings
        self.environment = environment
        self.lane = lane
        cache = ClusterMapCache(bucket: settings.bucket)
        var login = Handshake.Login(
            user: settings.user,
            password: settings.password,
            keys: settings.keys,
            bucket: settings.bucket
        )
        login.allowsPlain = settings.allowsPlain
        self.login = login
    }

    var now: UInt64 { environment.time.monotonicNanoseconds() }

    func nextNumber() -> UInt64 {
        numbers += 1
        return numbers
    }

    // MARK: Time

    /// Between looks at what cannot be heard of: silence, maps, nodes that left.
    static let lookNanoseconds: UInt64 = 250_000_000

    func enter(_ due: Due, after nanoseconds: UInt64) {
        agenda.enter(due, at: now + nanoseconds)
        arm()
    }

    private func arm() {
        guard let next = agenda.next else { return }
        if let timer, timer.time <= next { return }
        timer?.handle.cancel()
        let time = now
        let handle = lane.post(after: next > time ? next - time : 0) { [weak self] in self?.ring() }
        timer = (next, handle)
    }

    private func ring() {
        timer = nil
        let time = now
        while let due = agenda.take(at: time) {
            if case .closed = life { return }
            carryOut(due)
        }
        arm()
    }

    private func carryOut(_ due: Due) {
        switch due {
        case .deadline(let number):
            if let operation = operations[number] { expire(operation) }
        case .rested(let number, let turn):
            guard let operation = operations[number], case .resting(turn, _) = operation.stage
            else { return }
            dispatch(operation)
        case .paused(let number): pauses.removeValue(forKey: number)?()
        case .connect(let node): connectIfWanted(node)
        case .bootstrap: bootstrap()
        case .openDeadline: openingTookTooLong()
        case .look: look()
        }
    }

    /// Goes on with `work` after a wait, or at once when the client is closed meanwhile.
    func pause(_ nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) {
        if case .closed = life { return work() }
        let number = nextNumber()
        pauses[number] = work
        enter(.paused(number: number), after: nanoseconds)
    }

    // MARK: Life

    func open(_ done: @escaping @Sendable (Result<Void, ClientError>) -> Void) {
        guard case .new = life else {
            return done(.failure(ClientError(.invalid, "a client is opened once")))
        }
        guard !settings.bootstrap.isEmpty else {
            life = .closed
            return done(.failure(ClientError(.invalid, "no node was named to begin with")))
        }
        life = .opening(done: done)
        enter(.openDeadline, after: settings.openTimeoutMilliseconds * 1_000_000)
        enter(.look, after: ClientCore.lookNanoseconds)
        bootstrap()
    }

    /// Connects to one node after the other until one has given us a map.
    private func bootstrap() {
        guard case .opening = life else { return }
        let all = settings.bootstrap
        let address = all[nextBootstrap % all.count]
        nextBootstrap += 1
        connectIfAllowed(node(at: address))
        // A node that hangs must not keep us from asking the next.
        enter(.bootstrap, after: 200_000_000)
    }

    /// There is a map: what waited for it goes on its way.
    func hasOpened() {
        guard case .opening(let done) = life else { return }
        life = .open
        done(.success(()))
    }

    private func openingTookTooLong() {
        guard case .opening = life else { return }
        failOpening(bootstrapError(.unreachable))
    }

    /// Gives up early where every node has said that it will not be.
    func reconsiderOpening() {
        guard case .opening = life else { return }
        let addresses = Set(settings.bootstrap)
        let refusals = nodes.filter { addresses.contains($0.address) }.compactMap(\.failure)
        let final = refusals.filter { $0.reason == .authentication || $0.reason == .noBucket }
        guard final.count == addresses.count, let first = final.first else { return }
        failOpening(bootstrapError(first.reason == .noBucket ? .noBucket : .authentication))
    }

    private func bootstrapError(_ code: ClientError.Code) -> ClientError {
        let reasons = nodes.compactMap { node in
            (node.failure?.description ?? node.trouble).map { "\(node.address): \($0)" }
        }
        let text = reasons.isEmpty ? "no node has answered" : reasons.joined(separator: "; ")
        return ClientError(code, "bucket \(settings.bucket) could not be opened: \(text)")
    }

    private func failOpening(_ error: ClientError) {
        guard case .opening(let done) = life else { return }
        life = .open
        close {}
        done(.failure(error))
    }

    func close(_ done: @escaping @Sendable () -> Void) {
        if case .closed = life { return done() }
        let interrupted: (@Sendable (Result<Void, ClientError>) -> Void)? =
            if case .opening(let opening) = life { opening } else { nil }
        life = .closed
        timer?.handle.cancel()
        timer = nil
        agenda = Agenda()
        for number in operations.keys.sorted() {
            guard let operation = operations[number] else { continue }
            var code = ClientError.Code.closed
            if case .flying(let node, let ticket) = operation.stage,
                node.connection?.withdraw(ticket) != true, operation.request.isWrite
            {
                code = .ambiguous
            }
            operation.trouble = "the client was closed"
            finish(operation, .failure(operation.error(code)))
        }
        for node in nodes { node.connection?.close() }
        nodes = []
        let waiting = pauses
        pauses = [:]
        for number in waiting.keys.sorted() { waiting[number]?() }
        interrupted?(.failure(ClientError(.closed, "the client was closed before it was open")))
        done()
    }
}
