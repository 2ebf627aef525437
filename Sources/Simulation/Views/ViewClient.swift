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
        /// `isCurrent`: whether the node's view is that of the agreed state when it was asked.
        case text(String, isCurrent: Bool)
        case none(String)
    }

    static func answer(_ question: ViewQuestion, _ node: Server.Node) async -> Outcome {
        guard let views = node.views, views.obstacle == nil else { return .none("no views") }
        // As the port for views does; views that never change do without.
        var isCurrent = true
        if question.isFresh, question.view.document == ChangingView.document {
            isCurrent = (try? await node.administration.cluster.readCurrent()) != nil
        }
        guard let bucket = node.administration.state.bucket(named: question.bucket) else {
            return .none("no bucket")
        }
        let uuid = bucket.settings.uuid
        guard let indexes = views.indexes, let dependencies = views.dependencies,
            let definition = indexes.definition(
                question.view.name,
                in: question.view.document,
                ofBucket: uuid
            )
        else { return .none("no view") }
        guard let plan = plan(question) else { return .none("the query is refused") }
        guard let version = version(plan, of: definition, uuid: uuid, indexes: indexes) else {
            return .none("no reduce function")
        }
        let place = QueryRun.Bucket(uuid: uuid, name: question.bucket)
        var query = QueryRun.Query(of: place, version)
        let reputation = indexes.reputation(of: definition, ofBucket: uuid)
        if !reputation.isSettled {
            query.isReady = { indexes.retirePrevious(of: definition, ofBucket: uuid) }
        }
        // All versions of a changing view have a reduce function, so they accept the same parameters.
        if let previous = reputation.previous, !question.isFresh {
            query.previous = self.version(plan, of: previous, uuid: uuid, indexes: indexes)
        }
        switch await QueryRun.begin(query, dependencies) {
        case .busy: return .none("busy")
        case .unknownBucket: return .none("unknown bucket")
        case .open(let run):
            guard let text = await text(of: run) else { return .none("cancelled") }
            return .text(text, isCurrent: isCurrent)
        }
    }

    /// The query by one definition of its view; nil if its reduce function is not there any more.
    private static func version(
        _ plan: QueryPlan,
        of definition: ViewDefinition,
        uuid: String,
        indexes: IndexService
    ) -> QueryRun.Version? {
        var index = QueryRequest.IndexSelection(
            choice: IndexChoice(current: IndexSigning.signature(of: definition)),
            collation: IndexService.collationVersion
        )
        var reduction = QueryRun.Reduction.none
        if plan.merge.isGrouped, let slot = IndexSigning.slotSignature(of: definition) {
            index.slot = slot
            switch definition.reduce {
            case nil: break
            case .count: reduction = .builtin(.count)
            case .sum: reduction = .builtin(.sum)
            case .stats: reduction = .builtin(.stats)
            case .custom:
                guard let function = indexes.reduceFunction(slot, ofBucket: uuid) else {
                    return nil
                }
                reduction = .custom(function)
            }
        }
        return QueryRun.Version(plan, index: index, reduction: reduction)
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

    /// The whole answer; nil if the run was cancelled.
    private static func text(of run: QueryRun) async -> String? {
        defer { run.cancel() }
        var bytes: [UInt8] = []
        do throws(CancellationError) {
            while case .bytes(let part) = try await run.next() { bytes += part }
        } catch {
            return nil
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
