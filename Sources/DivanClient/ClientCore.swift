internal import Seams
internal import Wire

/// The state of a client and its work, on one lane: operations, nodes, the map, the timer.
///
/// The pure values decide (`KeyRouter`, `RetryPolicy`, `ClusterMapCache`, `ConnectionMachine`);
/// this type carries out their decisions. All input arrives on the lane: calls of the program,
/// events of connections, the timer.
///
/// - An operation is in exactly one `Operation.Stage` until it is over.
/// - No decision depends on the order of a dictionary, so that a simulation repeats from its seed.
final class ClientCore: @unchecked Sendable {  // tidy:allow its state belongs to its lane
    /// Timed work.
    enum Due {
        case deadline(operation: UInt64)
        case backOffEnded(operation: UInt64, turn: UInt64)
        case connect(ClusterNode)
        case bootstrap
        case openDeadline
        case periodicCheck
    }

    /// Can become, in this order: new, opening, open, closed.
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
    /// In the order in which the client learned of them.
    var nodes: [ClusterNode] = []
    var operations: [UInt64: Operation] = [:]
    var bytesPending = 0
    var lines = DocumentLines()
    /// When a map was last requested, because of a failure or by polling.
    var lastMapRequest: UInt64 = 0
    var nextToQuery = 0
    var nextBootstrap = 0
    /// The last number given to an operation, attempt or wait.
    private var numbers: UInt64 = 0
    private var agenda = Agenda<Due>()
    private var timer: (time: UInt64, handle: LaneTimer)?

    init(
        _ settings: ClientSettings,
        _ features: FeatureSet,
        environment: Environment,
        lane: any Lane
    ) {
        self.settings = settings
        self.environment = settings.trust.map { environment.secured(by: $0) } ?? environment
        self.lane = lane
        cache = ClusterMapCache(bucket: settings.bucket, isSecured: settings.trust != nil)
        var login = Handshake.Login(
            user: settings.user,
            password: settings.password,
            keys: settings.keys,
            bucket: settings.bucket
        )
        login.allowsPlain = settings.allowsPlain
        login.features = features
        self.login = login
    }

    var now: UInt64 { environment.time.monotonicNanoseconds() }

    func nextNumber() -> UInt64 {
        numbers += 1
        return numbers
    }

    // MARK: Time

    /// Interval of the periodic check for silent connections, newer maps and removed nodes.
    static let checkIntervalNanoseconds: UInt64 = 250_000_000

    func schedule(_ due: Due, after nanoseconds: UInt64) {
        agenda.schedule(due, at: now + nanoseconds)
        armTimer()
    }

    private func armTimer() {
        guard let next = agenda.next else { return }
        if let timer, timer.time <= next { return }
        timer?.handle.cancel()
        let time = now
        let handle = lane.post(after: next > time ? next - time : 0) { [weak self] in
            self?.fireTimer()
        }
        timer = (next, handle)
    }

    private func fireTimer() {
        timer = nil
        let time = now
        while let due = agenda.popDue(at: time) {
            if case .closed = life { return }
            handle(due)
        }
        armTimer()
    }

    private func handle(_ due: Due) {
        switch due {
        case .deadline(let number):
            if let operation = operations[number] { expire(operation) }
        case .backOffEnded(let number, let turn):
            guard let operation = operations[number], case .backingOff(turn, _) = operation.stage
            else { return }
            dispatch(operation)
        case .connect(let node): connectIfWanted(node)
        case .bootstrap: bootstrap()
        case .openDeadline: expireOpening()
        case .periodicCheck: runChecks()
        }
    }

    // MARK: Opening and closing

    func open(_ done: @escaping @Sendable (Result<Void, ClientError>) -> Void) {
        guard case .new = life else {
            return done(.failure(ClientError(.invalid, "the client was opened before")))
        }
        guard !settings.bootstrap.isEmpty else {
            life = .closed
            return done(.failure(ClientError(.invalid, "the settings name no bootstrap node")))
        }
        life = .opening(done: done)
        schedule(.openDeadline, after: settings.openTimeoutMilliseconds * 1_000_000)
        schedule(.periodicCheck, after: ClientCore.checkIntervalNanoseconds)
        bootstrap()
    }

    /// Connects to one bootstrap node after the other until one has sent a map.
    private func bootstrap() {
        guard case .opening = life else { return }
        let all = settings.bootstrap
        let address = all[nextBootstrap % all.count]
        nextBootstrap += 1
        connectIfAllowed(node(at: address))
        // Try the next node even if this one does not answer.
        schedule(.bootstrap, after: 200_000_000)
    }

    /// Completes opening; called when there is a map.
    func completeOpening() {
        guard case .opening(let done) = life else { return }
        life = .open
        done(.success(()))
    }

    private func expireOpening() {
        guard case .opening = life else { return }
        failOpening(bootstrapError(.unreachable))
    }

    /// Fails opening before its deadline if every bootstrap node has refused user or bucket.
    func failOpeningIfRefused() {
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
        let text = reasons.isEmpty ? "no node answered" : reasons.joined(separator: "; ")
        return ClientError(code, "cannot open bucket \(settings.bucket): \(text)")
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
            if case .inFlight(let node, let ticket) = operation.stage,
                node.connection?.withdraw(ticket) != true, operation.request.isWrite
            {
                code = .ambiguous
            }
            operation.trouble = "the client was closed"
            finish(operation, .failure(operation.error(code)))
        }
        for node in nodes { node.connection?.close() }
        nodes = []
        interrupted?(.failure(ClientError(.closed, "the client was closed before it was open")))
        done()
    }
}

/// Items ordered by time, as a binary heap, so that one timer serves all deadlines and waits.
///
/// Items cannot be cancelled: their handler recognises obsolete ones when they come due.
struct Agenda<Item> {
    private struct Entry {
        let time: UInt64
        /// Orders items of equal time by when they were scheduled.
        let number: UInt64
        let item: Item

        func isBefore(_ other: Entry) -> Bool {
            time == other.time ? number < other.number : time < other.time
        }
    }

    private var heap: [Entry] = []
    private var numbers: UInt64 = 0

    /// The earliest time; nil if the agenda is empty.
    var next: UInt64? { heap.first?.time }

    mutating func schedule(_ item: Item, at time: UInt64) {
        numbers += 1
        heap.append(Entry(time: time, number: numbers, item: item))
        var child = heap.count - 1
        while child > 0, heap[child].isBefore(heap[(child - 1) / 2]) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Removes and returns the first item that is due; nil if none is.
    mutating func popDue(at now: UInt64) -> Item? {
        guard let first = heap.first, first.time <= now else { return nil }
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child].isBefore(heap[least]) {
                least = child
            }
            if least == parent { return first.item }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}

/// Operations that wait for a durable write of their document to end, by document, oldest first.
///
/// Most of the durable writes that block an operation are this client's own. The client knows when
/// they end, and then retries the next operation of the line at once. The operations also back off
/// as usual, for durable writes of other clients.
///
/// - An operation in a line may have been dispatched already at the end of its back-off. The caller
///   of `next` has to check that.
struct DocumentLines {
    private struct Line {
        /// Ascending.
        var numbers: [UInt64] = []

        func index(of number: UInt64) -> (index: Int, isThere: Bool) {
            var (low, high) = (0, numbers.count)
            while low < high {
                let middle = (low + high) / 2
                if numbers[middle] < number { low = middle + 1 } else { high = middle }
            }
            return (low, low < numbers.count && numbers[low] == number)
        }

        mutating func enter(_ number: UInt64) {
            let (index, isThere) = index(of: number)
            if !isThere { numbers.insert(number, at: index) }
        }

        mutating func leave(_ number: UInt64) {
            let (index, isThere) = index(of: number)
            if isThere { numbers.remove(at: index) }
        }
    }

    private var lines: [[UInt8]: Line] = [:]

    var isEmpty: Bool { lines.isEmpty }

    /// Adds an operation to the document's line, ordered by its number; no effect if it is there.
    mutating func enter(_ number: UInt64, _ key: [UInt8]) {
        lines[key, default: Line()].enter(number)
    }

    /// Removes an operation from the document's line; no effect if it is not there.
    mutating func leave(_ number: UInt64, _ key: [UInt8]) {
        lines[key]?.leave(number)
        if lines[key]?.numbers.isEmpty == true { lines[key] = nil }
    }

    /// Removes and returns the oldest operation of the document's line; nil if there is none.
    mutating func next(_ key: [UInt8]) -> UInt64? {
        guard let first = lines[key]?.numbers.first else { return nil }
        leave(first, key)
        return first
    }

    mutating func removeAll() { lines = [:] }
}
