package import ClusterService
internal import Indexing
internal import Orchestration
package import ViewService
internal import Vocabulary

/// Carries out view queries by the indexes of the cluster's nodes.
///
/// A development view (`dev_`) of a large bucket is answered from one vBucket, unless the query has
/// `full_set=true`: `DevelopmentSubset`. The definitions that may answer are chosen when the query has its
/// slot: the view may be changed while it waits.
package struct IndexQueries: ViewQueries {
    /// The parts of the node's view service that queries use.
    package struct Node: Sendable {
        /// The index service; nil while the node has no views, and once it stops.
        package let indexes: @Sendable () -> IndexService?
        /// The services that a query run uses; nil in the same cases.
        package let dependencies: @Sendable () -> QueryRun.Dependencies?
        /// Why views do not work on this node, as a sentence; nil if they do.
        package let obstacle: @Sendable () -> String?

        package init(
            indexes: @escaping @Sendable () -> IndexService?,
            dependencies: @escaping @Sendable () -> QueryRun.Dependencies?,
            obstacle: @escaping @Sendable () -> String?
        ) {
            self.indexes = indexes
            self.dependencies = dependencies
            self.obstacle = obstacle
        }
    }

    let service: AdministrationService
    let node: Node

    /// Queries of the views in the state of `service`, which the node's index service follows.
    package init(_ service: AdministrationService, _ node: Node) {
        self.service = service
        self.node = node
    }

    package func begin(_ request: ViewRequest) async -> ViewQueryOutcome {
        do throws(ViewRefusal) {
            // First: it may open the index service, which has the views.
            let obstacle = node.obstacle()
            let checked = try check(request, await find(request), obstacle: obstacle)
            let time = checked.query.timeoutMilliseconds
            switch await QueryRun.admit(to: checked.bucket, within: time, checked.dependencies) {
            case .admitted(let place): return try await begin(checked, request, at: place)
            case .busy: throw .busy
            case .unknownBucket: throw .missing("missing")
            }
        } catch {
            return .refused(error)
        }
    }

    /// A query before its wait for a slot.
    struct Checked {
        let query: ViewQuery
        /// The view then; it may be changed during the wait.
        let view: SignedView
        let bucket: QueryRun.Bucket
        let keys: KeyMemory.Reservation
        let dependencies: QueryRun.Dependencies
    }

    /// Checks a query by the view that was found for it.
    ///
    /// - Throws: The refusal for the client.
    func check(
        _ request: ViewRequest,
        _ found: Found,
        obstacle: String?
    ) throws(ViewRefusal) -> Checked {
        if case .noDocument = found { throw .missing("missing") }
        if let obstacle { throw .unavailable(obstacle) }
        guard case .view(let view, let bucket) = found else {
            throw .missing("missing_named_view")
        }
        let query = try IndexQueries.checkedQuery(request, hasReduce: view.slot != nil)
        guard let dependencies = node.dependencies() else {
            throw .unavailable("The node is starting or stopping")
        }
        let bytes = query.keyBytes(otherNodes: service.cluster.otherNodesCount)
        guard let keys = dependencies.keys.reserve(bytes, for: .client) else {
            throw .lacksKeyMemory
        }
        return Checked(
            query: query,
            view: view,
            bucket: bucket,
            keys: keys,
            dependencies: dependencies
        )
    }

    /// Begins an admitted query.
    ///
    /// - Parameters:
    ///   - checked: The query as the view before its wait has it.
    ///   - request: The request.
    ///   - place: The query's slot.
    /// - Throws: The refusal for the client.
    /// - Returns: The outcome for the client.
    private func begin(
        _ checked: Checked,
        _ request: ViewRequest,
        at place: QueryRun.Place
    ) async throws(ViewRefusal) -> ViewQueryOutcome {
        guard node.indexes() != nil else {
            throw .unavailable("The node is starting or stopping")
        }
        let found = lookUp(request)
        if case .noDocument = found { throw .missing("missing") }
        guard case .view(let view, let bucket) = found else {
            throw .missing("missing_named_view")
        }
        var parsed = checked.query
        if (view.slot == nil) != (checked.view.slot == nil) {
            parsed = try IndexQueries.checkedQuery(request, hasReduce: view.slot != nil)
            // The same parameters select the same rows, so the keys are in memory once.
            parsed.selection = checked.query.selection
        }
        guard var query = query(parsed, of: view, bucket: bucket, for: request) else {
            throw .changedView
        }
        query.keys = checked.keys
        let dependencies = checked.dependencies
        switch await QueryRun.begin(query, dependencies, in: place, awaitsPart: true) {
        case .open(let run): return IndexQueries.outcome(of: run)
        case .busy: throw .busy
        case .unknownBucket: throw .missing("missing")
        }
    }

    private static func checkedQuery(
        _ request: ViewRequest,
        hasReduce: Bool
    ) throws(ViewRefusal) -> ViewQuery {
        do throws(QueryRefusal) {
            return try query(request, hasReduce: hasReduce)
        } catch {
            throw ViewRefusal(status: error.status, error: error.error, reason: error.reason)
        }
    }

    /// The outcome of a run that is open.
    static func outcome(of run: QueryRun) -> ViewQueryOutcome {
        guard let text = run.whole else { return .rows(IndexRows(run: run)) }
        run.cancel()
        return .whole(text)
    }

    /// The query by the definitions that may answer; nil if the view's reduce function is not there any
    /// more.
    func query(
        _ parsed: ViewQuery,
        of view: SignedView,
        bucket: QueryRun.Bucket,
        for request: ViewRequest
    ) -> QueryRun.Query? {
        let plan = QueryPlan(parsed)
        guard let indexes = node.indexes(),
            let current = indexes.version(plan, of: view, bucket)
        else { return nil }
        let definition = view.definition
        var query = QueryRun.Query(of: bucket, current)
        let reputation = indexes.reputation(of: definition, ofBucket: bucket.uuid)
        if !reputation.isSettled {
            query.isReady = { indexes.retirePrevious(of: definition, ofBucket: bucket.uuid) }
        }
        // A query that the previous definition would refuse is answered by the current one.
        if let old = reputation.previous, parsed.freshness != .current,
            let earlier = try? IndexQueries.query(request, hasReduce: old.reduce != nil)
        {
            let shared = QueryPlan(earlier).sharingRanges(of: plan)
            query.previous = indexes.version(shared, of: SignedView(old), bucket)
        }
        query.usesSubset = usesSubset(parsed, of: request.designDocument, bucket)
        return query
    }

    /// Whether a query is answered from one vBucket.
    private func usesSubset(
        _ query: ViewQuery,
        of designDocument: String,
        _ bucket: QueryRun.Bucket
    ) -> Bool {
        guard designDocument.hasPrefix(DesignDocument.developmentPrefix) else { return false }
        return DevelopmentSubset.applies(
            isDevelopment: true,
            usesFullSet: query.usesFullSet,
            documents: service.statistics.documentCount(ofBucket: bucket.name),
            vBuckets: service.state.bucket(named: bucket.name)?.settings.vBuckets ?? 0
        )
    }

    // MARK: The view

    enum Found {
        case view(SignedView, QueryRun.Bucket)
        case noDocument
        case noView
    }

    /// Finds the view in the state; if it is missing, or the query must be current, in the current state.
    ///
    /// Another node may have acknowledged the design document, or its change, before this node applies it.
    /// A query that accepts an old index may be answered by the definition before.
    private func find(_ request: ViewRequest) async -> Found {
        let found = lookUp(request)
        if isEnough(found, for: request) { return found }
        // Without a majority, this node's state is the answer.
        guard (try? await service.cluster.readCurrent()) != nil else { return found }
        return lookUp(request)
    }

    /// Whether the query needs no newer state than this node's.
    func isEnough(_ found: Found, for request: ViewRequest) -> Bool {
        if case .view = found, !IndexQueries.isCurrent(request) { return true }
        return !service.cluster.hasSeveralNodes
    }

    /// The view in this node's state.
    func lookUp(_ request: ViewRequest) -> Found {
        let found = service.cluster.uuid(
            ofBucket: request.bucket,
            withDesignDocument: request.designDocument
        )
        guard let uuid = found else { return .noDocument }
        let view = node.indexes()?.signedView(
            request.view,
            in: request.designDocument,
            ofBucket: uuid
        )
        guard let view else { return .noView }
        return .view(view, QueryRun.Bucket(uuid: uuid, name: request.bucket))
    }
}

extension IndexService {
    /// A query by one definition of its view; nil if its reduce function is not there any more.
    fileprivate func version(
        _ plan: QueryPlan,
        of view: SignedView,
        _ bucket: QueryRun.Bucket
    ) -> QueryRun.Version? {
        var index = QueryRequest.IndexSelection(
            choice: IndexChoice(current: view.index),
            collation: IndexService.collationVersion
        )
        var reduction = QueryRun.Reduction.none
        if plan.merge.isGrouped, let slot = view.slot {
            guard let reduce = self.reduction(slot, of: view.definition, bucket) else { return nil }
            index.slot = slot
            reduction = reduce
        }
        return QueryRun.Version(plan, index: index, reduction: reduction)
    }

    /// How the values of several nodes become one; nil if a custom function is not there any more.
    fileprivate func reduction(
        _ slot: IndexSignature,
        of definition: ViewDefinition,
        _ bucket: QueryRun.Bucket
    ) -> QueryRun.Reduction? {
        switch definition.reduce {
        case nil: QueryRun.Reduction.none
        case .count: .builtin(.count)
        case .sum: .builtin(.sum)
        case .stats: .builtin(.stats)
        case .custom: reduceFunction(slot, ofBucket: bucket.uuid).map { .custom($0) }
        }
    }
}

/// The rows of one run.
private struct IndexRows: ViewRows {
    let run: QueryRun

    func next() async throws -> ViewRowsPart {
        switch try await run.next() {
        case .bytes(let bytes): .bytes(bytes)
        case .end(let isPartial): .end(isPartial: isPartial)
        }
    }

    func cancel() { run.cancel() }
}
