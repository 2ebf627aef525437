internal import Bytes
internal import ClusterService
internal import Indexing
internal import JSON
internal import Orchestration
internal import Server
internal import ViewService
internal import Vocabulary

/// Asks a node as its port for views does, without HTTP.
enum ViewClient {
    /// The whole answer as text, or why there is none.
    enum Outcome: Sendable {
        case text(String)
        case none(String)
    }

    static func answer(_ question: ViewQuestion, _ node: Server.Node) async -> Outcome {
        guard let views = node.views, views.obstacle == nil else { return .none("no views") }
        guard let bucket = node.cluster.state.bucket(named: question.bucket) else {
            return .none("no bucket")
        }
        let uuid = bucket.settings.uuid
        guard let indexes = views.indexes, let surroundings = views.surroundings,
            let definition = indexes.definition(
                question.view.name,
                in: question.view.document,
                ofBucket: uuid
            )
        else { return .none("no view") }
        guard let plan = plan(question) else { return .none("the query is refused") }
        var index = QueryRequest.IndexSelection(
            choice: IndexChoice(current: indexes.signature(of: definition)),
            collation: indexes.collationVersion
        )
        var reduction = QueryRun.Reduction.none
        if plan.merge.isGrouped, let slot = indexes.slotSignature(of: definition) {
            index.slot = slot
            switch definition.reduce {
            case nil: break
            case .count: reduction = .builtin(.count)
            case .sum: reduction = .builtin(.sum)
            case .stats: reduction = .builtin(.stats)
            case .custom:
                guard let function = indexes.reduceFunction(slot, ofBucket: uuid) else {
                    return .none("no reduce function")
                }
                reduction = .custom(function)
            }
        }
        var query = QueryRun.Query(
            of: QueryRun.Bucket(uuid: uuid, name: question.bucket),
            QueryRun.Version(plan, index: index, reduction: reduction)
        )
        if !indexes.standing(of: definition, ofBucket: uuid).isSettled {
            query.isReady = { indexes.settle(definition, ofBucket: uuid) }
        }
        switch await QueryRun.begin(query, surroundings) {
        case .busy: return .none("busy")
        case .unknownBucket: return .none("unknown bucket")
        case .open(let run): return await text(of: run)
        }
    }

    private static func plan(_ question: ViewQuestion) -> QueryPlan? {
        guard let collation = try? Collation() else { return nil }
        let query = try? ViewQuery(
            parameters: question.parameters,
            body: nil,
            hasReduce: question.view.reduce != nil,
            encode: { text in
                let key = ByteWriter()
                return collation.appendSortKey(ofJSON: text, to: key) == .appended
                    ? key.bytes : nil
            }
        )
        return query.map { QueryPlan($0) }
    }

    private static func text(of run: QueryRun) async -> Outcome {
        defer { run.cancel() }
        var bytes: [UInt8] = []
        do throws(CancellationError) {
            while case .bytes(let part) = try await run.next() { bytes += part }
        } catch {
            return .none("cancelled")
        }
        return .text(String(decoding: bytes, as: UTF8.self))
    }
}
