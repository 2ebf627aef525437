import Bytes
import Foundation
import Indexing
import JSON
import LinuxPlatform
import ScriptProcesses
import Scripting
import Seams
import Testing
import ViewService
import Vocabulary

/// Real lanes and script processes for query runs; nodes, maps and documents are scripted.
final class RunWorld: Sendable {
    let nodes = ScriptedNodes()
    let maps: ScriptedMaps
    let documents = ScriptedDocuments()
    let slots: QuerySlots
    /// Queries that found the current index complete on all nodes.
    let readyCount = Guarded(0)
    let scripts: ScriptPool
    private let linux = LinuxEnvironment.make(reactors: 1, logLevel: .error)
    private let lane: any Lane
    private let scriptLane: any Lane

    static let bucket = QueryRun.Bucket(uuid: "u1", name: "travel")

    /// A world whose vBuckets are served by these nodes; 0 for none.
    init(
        _ actives: [UInt16],
        slots: Int = QuerySlots.countMax,
        waiters: Int = QuerySlots.waitersMax
    ) {
        maps = ScriptedMaps(actives)
        self.slots = QuerySlots(slots, waitersMax: waiters)
        lane = linux.environment.lanes.makeLane("queries")
        scriptLane = linux.environment.lanes.makeLane("scripts")
        scripts = ScriptPool(
            linux.environment,
            lane: scriptLane,
            category: "views",
            limits: ScriptScheduleLimits(processors: 2)
        )
    }

    func stop() {
        scripts.stop()
        scriptLane.stop()
        lane.stop()
        linux.stop()
    }

    /// Keeps the lane of the queries from other work until the gate is opened.
    func blockLane() -> LaneGate {
        let gate = LaneGate()
        lane.post { gate.wait() }
        return gate
    }

    /// A slot, requested as a run does.
    func acquireSlot(withinMilliseconds milliseconds: UInt64) async -> QuerySlots.Slot? {
        await slots.acquire(within: milliseconds * 1_000_000, on: lane)
    }

    static func signature(_ byte: UInt8) throws -> IndexSignature {
        try #require(IndexSignature([UInt8](repeating: byte, count: IndexSignature.byteCount)))
    }

    func begin(
        _ query: ViewQuery = ViewQuery(),
        _ reduction: QueryRun.Reduction = .none,
        previous: IndexSignature? = nil,
        awaitsPart: Bool = false,
        of bucket: QueryRun.Bucket = RunWorld.bucket
    ) async throws -> QueryRun.Beginning {
        let run = try self.query(query, reduction, previous: previous, of: bucket)
        return await QueryRun.begin(run, dependencies, awaitsPart: awaitsPart)
    }

    /// Begins a query on this thread, without waiting.
    func beginNow(
        _ query: ViewQuery = ViewQuery(),
        of bucket: QueryRun.Bucket = RunWorld.bucket
    ) throws -> QueryRun.PromptBeginning {
        QueryRun.beginNow(
            try self.query(query, .none, previous: nil, of: bucket),
            dependencies
        )
    }

    private func query(
        _ query: ViewQuery,
        _ reduction: QueryRun.Reduction,
        previous: IndexSignature?,
        of bucket: QueryRun.Bucket
    ) throws -> QueryRun.Query {
        func version(_ signature: IndexSignature) -> QueryRun.Version {
            QueryRun.Version(
                QueryPlan(query),
                index: QueryRequest.IndexSelection(
                    choice: IndexChoice(current: signature),
                    collation: Collation.version
                ),
                reduction: reduction
            )
        }
        var run = QueryRun.Query(of: bucket, version(try RunWorld.signature(1)))
        run.previous = previous.map(version)
        run.isReady = { [readyCount] in readyCount.withLock { $0 += 1 } }
        return run
    }

    var dependencies: QueryRun.Dependencies {
        QueryRun.Dependencies(
            environment: linux.environment,
            lane: lane,
            scripts: scripts,
            ports: QueryRun.Ports(nodes: nodes, maps: maps, documents: documents),
            slots: slots
        )
    }

    /// A run that has begun.
    func run(
        _ query: ViewQuery = ViewQuery(),
        _ reduction: QueryRun.Reduction = .none,
        previous: IndexSignature? = nil,
        awaitsPart: Bool = false
    ) async throws -> QueryRun {
        let beginning = try await begin(
            query,
            reduction,
            previous: previous,
            awaitsPart: awaitsPart
        )
        guard case .open(let run) = beginning else { throw NotOpen(beginning: "\(beginning)") }
        return run
    }

    /// A run of an admitted query.
    func run(in place: QueryRun.Place) async throws -> QueryRun {
        let query = try query(ViewQuery(), .none, previous: nil, of: RunWorld.bucket)
        let beginning = await QueryRun.begin(query, dependencies, in: place)
        guard case .open(let run) = beginning else { throw NotOpen(beginning: "\(beginning)") }
        return run
    }

    struct NotOpen: Error { let beginning: String }

    /// The whole answer.
    func answer(
        _ query: ViewQuery = ViewQuery(),
        _ reduction: QueryRun.Reduction = .none,
        previous: IndexSignature? = nil
    ) async throws -> Answer {
        let run = try await run(query, reduction, previous: previous)
        defer { run.cancel() }
        return try await RunWorld.read(run)
    }

    static func read(_ run: QueryRun) async throws -> Answer {
        var parts: [[UInt8]] = []
        while true {
            switch try await run.next() {
            case .bytes(let bytes): parts.append(bytes)
            case .end(let isPartial): return Answer(parts: parts, isPartial: isPartial)
            }
        }
    }

    struct Answer {
        let parts: [[UInt8]]
        let isPartial: Bool

        var text: String { String(decoding: parts.joined(), as: UTF8.self) }
        var json: JSONValue? { JSONValue.parse(text) }
        var rows: [JSONValue] { json?["rows"]?.array ?? [] }
        var ids: [String] { rows.compactMap { $0["id"]?.string } }
        var errors: [[String]] {
            (json?["errors"]?.array ?? []).map { error in
                [error["from"]?.string ?? "", error["reason"]?.string ?? ""]
            }
        }
    }

    /// Waits for what another thread does.
}

/// A row of a scripted node, or a group with a partial value.
struct RunRow: Sendable {
    var keyNumber = 0
    var vBucket: UInt16 = 0
    var key: [UInt8]
    var value: [UInt8]

    /// A row of a map function.
    init(_ json: String, _ id: String, value: String = "null", vBucket: UInt16 = 0) throws {
        let output = ByteWriter()
        let sortKey = try RunRow.sortKey(json)
        sortKey.withUnsafeBytes { sortKey in
            Array(id.utf8).withUnsafeBytes { id in
                RowKey.append(
                    sortKey: ByteView(sortKey),
                    id: ByteView(id),
                    ordinal: 0,
                    to: output
                )
            }
        }
        key = output.bytes
        self.value = Array(value.utf8)
        self.vBucket = vBucket
    }

    /// A group; nil is the one of all rows.
    init(group json: String?, partial: [UInt8]) throws {
        key = try json.map { try RunRow.sortKey($0) } ?? []
        value = partial
    }

    init(key: [UInt8], value: [UInt8]) {
        self.key = key
        self.value = value
    }

    private static let collation = Guarded(Result { try Collation() })

    static func sortKey(_ json: String) throws -> [UInt8] {
        try collation.withLock { collation in
            let output = ByteWriter()
            let collation = try collation.get()
            let outcome = Array(json.utf8).withUnsafeBytes {
                collation.appendSortKey(ofJSON: ByteView($0), to: output)
            }
            try #require(outcome == .appended)
            return output.bytes
        }
    }

    /// The encoded partial value of some numbers, as JSON texts.
    static func partial(_ values: [String]) -> [UInt8] {
        var partial = NumericPartial()
        for value in values {
            Array(value.utf8).withUnsafeBytes { partial.add(ByteView($0)) }
        }
        let output = ByteWriter()
        partial.encode(to: output)
        return output.bytes
    }
}

extension RowBatch {
    static func of(_ rows: [RunRow]) throws -> RowBatch {
        var writer = RowBatchWriter()
        for row in rows {
            row.key.withUnsafeBytes { key in
                row.value.withUnsafeBytes { value in
                    writer.append(
                        keyNumber: row.keyNumber,
                        vBucket: VBucketID(row.vBucket),
                        key: ByteView(key),
                        value: ByteView(value)
                    )
                }
            }
        }
        return try RowBatch(decoding: writer.finish())
    }
}

/// Blocks a lane until it is opened.
final class LaneGate: Sendable {
    private let isOpen = Guarded(false)

    func open() { isOpen.withLock { $0 = true } }

    func wait() { while !isOpen.withLock({ $0 }) { usleep(1_000) } }
}
