import Bytes
import Foundation
import Indexing
import JSON
import LinuxPlatform
import Persistence
import ScriptProcesses
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary
import Wire

/// A responder on one real index, and what a test asks it.
final class ResponderWorld: Sendable {
    /// What a test selects beside the parameters of a query.
    struct Ask {
        var vBuckets = MemoryChanges.vBuckets
        var mapRevision: UInt64 = 1
        var collation = Collation.version
        var startMilliseconds: UInt64 = 60_000
        /// The index of the view's previous definition.
        var previous: IndexSignature?
        var usesPrevious = false
        /// Whether every batch is followed by a credit.
        var addsCredit = true
        var onThisThread = false
    }

    let world = IndexWorld()
    let buckets: KnownBuckets
    let responder: QueryResponder
    let lane: any Lane
    private let posted: Guarded<Int>
    private let collation = Guarded(try? Collation())

    init(_ limit: (inout StallRule.Limits) -> Void = { _ in }) {
        let buckets = KnownBuckets()
        self.buckets = buckets
        let posted = Guarded(0)
        self.posted = posted
        let lanes = TappedLanes(over: world.linux.environment.lanes) { _, work in
            posted.withLock { $0 += 1 }
            return work
        }
        lane = lanes.makeLane("queries")
        var dependencies = QueryResponder.Dependencies(
            environment: world.linux.environment,
            changes: world.changes,
            scripts: world.scripts,
            buckets: buckets
        )
        limit(&dependencies.stall)
        responder = QueryResponder(dependencies, lanes: [lane])
    }

    /// How often work was posted on the responder's lane.
    var postCount: Int { posted.withLock { $0 } }

    func stop() {
        responder.stop()
        lane.stop()
        world.stop()
    }

    /// Makes the index of the query, which need not be complete.
    @discardableResult
    func index(_ source: String) throws -> ViewIndex {
        let index = try world.index(source)
        buckets.change { $0.index = index }
        return index
    }

    /// The reduce function of the view.
    func reduce(_ source: String) {
        let reduction: QueryReduction =
            switch BuiltinReduction(rawValue: source) {
            case .count: .count
            case .sum, .stats: .numbers
            case nil:
                .custom(
                    world.scripts.function(
                        source,
                        .reduce,
                        ofBucket: "b",
                        timeoutMilliseconds: 2_000
                    )
                )
            }
        buckets.change { $0.reduction = reduction }
    }

    // MARK: Asking

    func request(_ query: String, _ ask: Ask = Ask()) throws -> QueryRequest {
        let hasReduce = buckets.reduction(KnownBuckets.slot, ofBucket: "bucket") != nil
        let parsed = try ViewQuery(
            parameters: query.split(separator: "&").map { part in
                let sides = part.split(separator: "=", maxSplits: 1).map(String.init)
                return QueryParameter(name: sides[0], value: Array(sides[1].utf8))
            },
            body: nil,
            hasReduce: hasReduce,
            encode: { text in
                let key = ByteWriter()
                let outcome = collation.withLock { $0?.appendSortKey(ofJSON: text, to: key) }
                return outcome == .appended ? key.bytes : nil
            }
        )
        let plan = QueryPlan(parsed)
        var request = QueryRequest(
            bucket: "bucket",
            index: QueryRequest.IndexSelection(
                choice: IndexChoice(
                    current: ask.usesPrevious ? KnownBuckets.other : KnownBuckets.signature,
                    previous: ask.previous,
                    usesPrevious: ask.usesPrevious
                ),
                slot: plan.scan.reduction == .none ? nil : KnownBuckets.slot,
                collation: ask.collation
            ),
            scan: plan.scan,
            freshness: plan.freshness
        )
        request.vBuckets = ask.vBuckets
        request.mapRevision = ask.mapRevision
        request.startMillisecondsMax = ask.startMilliseconds
        return request
    }

    /// Begins a query.
    func begin(_ query: String, _ ask: Ask = Ask()) throws -> Replies {
        let replies = Replies()
        let call = responder.respond(
            to: try request(query, ask),
            onThisThread: ask.onThisThread
        ) { replies.add($0) }
        replies.begin(call, addsCredit: ask.addsCredit)
        return replies
    }

    /// The replies to a query, after its last one.
    func ask(_ query: String, _ ask: Ask = Ask()) throws -> Replies {
        let replies = try begin(query, ask)
        try awaitEnd(replies)
        return replies
    }

    func awaitEnd(_ replies: Replies) throws {
        try waitUntil("the query ends") { replies.last != nil }
    }

    /// Waits until the responder's lane has done what was posted before.
    func awaitLane() throws {
        let isDone = Guarded(false)
        lane.post { isDone.withLock { $0 = true } }
        try waitUntil("the lane is idle") { isDone.withLock { $0 } }
    }
}

/// What a service would have: one bucket with one index.
final class KnownBuckets: ServedBuckets {
    struct State {
        var served = ServedVBuckets(revision: 1, vBuckets: Set(MemoryChanges.vBuckets))
        var index: ViewIndex?
        var obstacle: String?
        var reduction: QueryReduction?
    }

    static let signature = made(1)
    static let slot = made(2)
    /// Of an index that the node does not have.
    static let other = made(3)
    private let known = Guarded(State())

    private static func made(_ byte: UInt8) -> IndexSignature {
        guard let signature = IndexSignature([UInt8](repeating: byte, count: 16)) else {
            preconditionFailure("16 bytes are a signature")
        }
        return signature
    }

    func change(_ body: (inout State) -> Void) { known.withLock { body(&$0) } }

    func state(ofBucket uuid: String) -> ServedVBuckets? {
        uuid == "bucket" ? known.withLock { $0.served } : nil
    }

    func index(_ signature: IndexSignature, ofBucket uuid: String) -> ViewIndex? {
        signature == KnownBuckets.signature ? known.withLock { $0.index } : nil
    }

    func isWaking(_ signature: IndexSignature, ofBucket uuid: String) -> Bool { false }

    func needsIndex(_ signature: IndexSignature, ofBucket uuid: String) -> Bool {
        signature == KnownBuckets.signature
    }

    func obstacle(to signature: IndexSignature, ofBucket uuid: String) -> String? {
        known.withLock { $0.obstacle }
    }

    func reduction(_ slot: IndexSignature, ofBucket uuid: String) -> QueryReduction? {
        slot == KnownBuckets.slot ? known.withLock { $0.reduction } : nil
    }
}

/// The replies to one query, in the order of their arrival.
final class Replies: Sendable {
    private struct State {
        var replies: [QueryReply] = []
        var call: (any QueryCall)?
        var addsCredit = false
        /// Batches that came before the call was there.
        var owed = 0
    }

    private let state = Guarded(State())

    func begin(_ call: any QueryCall, addsCredit: Bool) {
        let owed = state.withLock { state in
            state.call = call
            state.addsCredit = addsCredit
            return state.owed
        }
        if addsCredit { for _ in 0..<owed { call.addCredit() } }
    }

    func add(_ reply: QueryReply) {
        let call: (any QueryCall)? = state.withLock { state in
            state.replies.append(reply)
            switch reply {
            case .rows, .groups: break
            default: return nil
            }
            if state.call == nil { state.owed += 1 }
            return state.addsCredit ? state.call : nil
        }
        call?.addCredit()
    }

    func addCredit() { state.withLock { $0.call }?.addCredit() }

    func cancel() { state.withLock { $0.call }?.cancel() }

    var all: [QueryReply] { state.withLock { $0.replies } }

    var start: QueryStart? {
        if case .start(let start)? = all.first { start } else { nil }
    }

    /// The reply that ended the answer; nil as long as it continues.
    var last: QueryReply? {
        switch all.last {
        case .start, .rows, .groups, nil: nil
        case let reply?: reply
        }
    }

    var batches: [RowBatch] {
        all.compactMap { reply in
            switch reply {
            case .rows(let batch), .groups(let batch): batch
            default: nil
            }
        }
    }

    /// All rows as texts; with the key number in queries of keys.
    func rows(numbered: Bool = false) -> [String] {
        texts { row in
            let number = numbered ? "\(row.keyNumber): " : ""
            guard let key = RowKey(row.key) else { return "malformed" }
            let id = ByteWriter()
            _ = key.appendID(to: id)
            return "\(number)\(Replies.json(key.sortKey)) \(id.view.text) \(row.value.text)"
        }
    }

    /// All groups as texts, with the result of a built-in reduction or the value as it is.
    func groups(_ reduction: BuiltinReduction? = nil, numbered: Bool = false) -> [String] {
        texts { row in
            let number = numbered ? "\(row.keyNumber): " : ""
            let key = row.key.isEmpty ? "all" : Replies.json(row.key)
            guard let reduction else { return "\(number)\(key) \(row.value.text)" }
            let result = ByteWriter()
            let hasResult =
                NumericPartial(encoded: row.value)?.appendResult(of: reduction, to: result)
            return "\(number)\(key) \(hasResult == true ? result.view.text : "none")"
        }
    }

    private func texts(_ text: (RowBatch.Row) -> String) -> [String] {
        batches.flatMap { batch in (0..<batch.count).map { batch.withRow($0, text) } }
    }

    /// The whole bytes are one sort key, or the text says that they are not.
    private static func json(_ key: ByteView) -> String {
        let text = ByteWriter()
        return Collation.appendJSON(ofSortKey: key, to: text) == key.count
            ? text.view.text : "malformed"
    }
}
