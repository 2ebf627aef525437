import Bytes
import Indexing
import Testing
import ViewService
import Vocabulary

/// Nodes that answer each request as a test states, within their credit.
final class ScriptedNodes: QueryNodes {
    enum Step: Sendable {
        /// A batch of rows or groups waits for credit.
        case reply(QueryReply)
        /// Does not wait for credit.
        case hasty(QueryReply)
        case lost(String)
    }

    typealias Script = @Sendable (_ request: QueryRequest, _ node: UInt16) -> [Step]

    struct State {
        var script: Script = { _, _ in [] }
        var calls: [ScriptedCall] = []
        var isHere = false
    }

    private let state = Guarded(State())

    func follow(_ script: @escaping Script) { state.withLock { $0.script = script } }

    /// From now on, all nodes count as this one.
    func answerHere() { state.withLock { $0.isHere = true } }

    func answersHere(_ node: NodeNumber) -> Bool { state.withLock { $0.isHere } }

    /// All calls, in the order of their requests.
    var calls: [ScriptedCall] { state.withLock { $0.calls } }

    func send(
        _ request: QueryRequest,
        to node: NodeNumber,
        _ event: @escaping @Sendable (QueryNodeEvent) -> Void
    ) -> any QueryCall {
        let steps = state.withLock { $0.script }(request, node.value)
        let call = ScriptedCall(request, node.value, steps, event)
        state.withLock { $0.calls.append(call) }
        call.proceed()
        return call
    }

    /// A start, the rows in batches of this size, and the end.
    static func rows(_ rows: [RunRow], of size: Int = 2, isGrouped: Bool = false) -> [Step] {
        let batches = stride(from: 0, to: rows.count, by: size).compactMap { first in
            try? RowBatch.of(Array(rows[first..<min(first + size, rows.count)]))
        }
        let start = Step.reply(.start(QueryStart(indexRows: UInt64(rows.count))))
        return [start] + batches.map { .reply(isGrouped ? .groups($0) : .rows($0)) } + [
            .reply(.end)
        ]
    }

    static let start = Step.reply(.start(QueryStart(indexRows: 0)))
}

/// The answer of one node to one request.
final class ScriptedCall: QueryCall {
    let request: QueryRequest
    let node: UInt16
    private let event: @Sendable (QueryNodeEvent) -> Void

    private struct State {
        var steps: [ScriptedNodes.Step]
        var credit = RowMerge.creditMax
        var credits = 0
        var isCancelled = false

        /// The next step that may be sent.
        mutating func next() -> ScriptedNodes.Step? {
            guard !isCancelled, let first = steps.first else { return nil }
            switch first {
            case .reply(.rows), .reply(.groups):
                guard credit > 0 else { return nil }
                credit -= 1
            default: break
            }
            return steps.removeFirst()
        }
    }

    private let state: Guarded<State>

    init(
        _ request: QueryRequest,
        _ node: UInt16,
        _ steps: [ScriptedNodes.Step],
        _ event: @escaping @Sendable (QueryNodeEvent) -> Void
    ) {
        self.request = request
        self.node = node
        self.event = event
        state = Guarded(State(steps: steps))
    }

    var isCancelled: Bool { state.withLock { $0.isCancelled } }
    /// Credits beyond the first ones.
    var credits: Int { state.withLock { $0.credits } }
    /// Steps that wait for credit.
    var restCount: Int { state.withLock { $0.steps.count } }

    func addCredit() {
        state.withLock { state in
            state.credit += 1
            state.credits += 1
        }
        proceed()
    }

    func cancel() { state.withLock { $0.isCancelled = true } }

    /// Adds steps to a call that has none left.
    func add(_ steps: [ScriptedNodes.Step]) {
        state.withLock { $0.steps += steps }
        proceed()
    }

    func proceed() {
        while let step = state.withLock({ $0.next() }) {
            switch step {
            case .reply(let reply), .hasty(let reply): event(.reply(reply))
            case .lost(let why): event(.lost(why))
            }
        }
    }
}

/// The map of one bucket.
final class ScriptedMaps: ServingMapSource {
    private struct State {
        var map: QueryCoordination.ServingMap
        var observers: [Int: @Sendable (QueryCoordination.ServingMap) -> Void] = [:]
        var numbers = 0
    }

    private let state: Guarded<State>

    init(_ actives: [UInt16]) {
        state = Guarded(State(map: ScriptedMaps.map(1, actives)))
    }

    private static func map(_ revision: UInt64, _ actives: [UInt16]) -> QueryCoordination.ServingMap
    {
        QueryCoordination.ServingMap(
            revision: revision,
            actives: actives.map { $0 == 0 ? nil : NodeNumber($0) }
        )
    }

    var observerCount: Int { state.withLock { $0.observers.count } }
    /// All observations so far.
    var observationCount: Int { state.withLock { $0.numbers } }

    func change(to actives: [UInt16]) {
        let (map, observers) = state.withLock { state in
            state.map = ScriptedMaps.map(state.map.revision + 1, actives)
            return (state.map, Array(state.observers.values))
        }
        for observer in observers { observer(map) }
    }

    func servingMap(ofBucket uuid: String) -> QueryCoordination.ServingMap? {
        uuid == RunWorld.bucket.uuid ? state.withLock { $0.map } : nil
    }

    func observe(
        bucket uuid: String,
        _ changed: @escaping @Sendable (QueryCoordination.ServingMap) -> Void
    ) -> any Observation {
        let number = state.withLock { state in
            state.numbers += 1
            state.observers[state.numbers] = changed
            return state.numbers
        }
        return MapObservation { [state] in state.withLock { $0.observers[number] = nil } }
    }

    func name(of node: NodeNumber) -> String { "h\(node.value):8092" }
}

struct MapObservation: Observation {
    let end: @Sendable () -> Void

    func cancel() { end() }
}

/// Documents by ID.
final class ScriptedDocuments: DocumentLookup {
    struct State {
        var texts: [String: String] = [:]
        /// Documents that cannot be read, with the cause.
        var failing: [String: String] = [:]
        var reading = 0
        var readingMax = 0
        var reads: [String: Int] = [:]
        var waiting: [UnsafeContinuation<Void, Never>] = []
        /// Reads to wait for before any of them ends.
        var gate = 0
    }

    let state = Guarded(State())

    func put(_ id: String, _ json: String) { state.withLock { $0.texts[id] = json } }

    func document(_ id: [UInt8], inBucket name: String) async -> IncludedDocumentOutcome {
        let id = String(decoding: id, as: UTF8.self)
        await withUnsafeContinuation { waiter in
            let released = state.withLock { state in
                state.reading += 1
                state.readingMax = max(state.readingMax, state.reading)
                state.reads[id, default: 0] += 1
                state.waiting.append(waiter)
                guard state.reading >= state.gate else {
                    return [UnsafeContinuation<Void, Never>]()
                }
                defer { state.waiting = [] }
                state.gate = 0
                return state.waiting
            }
            for waiter in released { waiter.resume() }
        }
        return state.withLock { state in
            state.reading -= 1
            if let reason = state.failing[id] { return .failed(reason) }
            guard let text = state.texts[id] else { return .missing }
            return .found(
                IncludedDocument(meta: Array("{\"id\":\"\(id)\"}".utf8), body: Array(text.utf8))
            )
        }
    }
}
