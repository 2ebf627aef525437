internal import Bytes
internal import ClusterService
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import ViewService
internal import Vocabulary

/// Changes, publishes, deletes and puts again the view of `ChangingView` while it is queried, and requests
/// compactions of indexes.
///
/// In the even seeds of the workload `views`; all other seeds are as without it. The random numbers are a
/// separate sequence.
final class ViewAuthor {
    private static let second: UInt64 = 1_000_000_000
    /// Then a request is given up: its node may have ended.
    private static let patienceNanoseconds = 6 * second

    /// Called with the bucket and the design document, when a request is made.
    typealias Chase = (_ bucket: String, _ document: String) -> Void

    /// A change of the view that has no answer yet.
    private struct Change {
        let bucket: String
        let number: Int
        let submittedAt: UInt64
        /// Whether it has taken effect; nil before the answer.
        let outcome = Guarded<Bool?>(nil)
    }

    private let cluster: SimulatedCluster
    private let buckets: [BucketSettings]
    private let isLossless: Bool
    private var dice: SeededRandom
    private var histories: [String: DefinitionHistory] = [:]
    private var open: Change?
    private var isOver = false
    private(set) var tally = Tally()

    /// Nil if the seed has none; `isLossless`: whether no node fails in it.
    init?(
        _ cluster: SimulatedCluster,
        _ plan: SimulationPlan,
        buckets: [BucketSettings],
        isLossless: Bool
    ) {
        guard plan.workload == "views", plan.seed & 1 == 0 else { return nil }
        self.cluster = cluster
        self.buckets = buckets
        self.isLossless = isLossless
        dice = SeededRandom(seed: plan.seed ^ 0x6368_616e_6765)
    }

    func start(_ chase: @escaping Chase) {
        cluster.world.after(ViewAuthor.second / 2 + dice.next() % (2 * ViewAuthor.second)) {
            [weak self] in
            guard let self, !isOver else { return }
            act(chase)
            start(chase)
        }
    }

    func end() { isOver = true }

    private func pick(_ count: Int) -> Int { Int(dice.next() % UInt64(count)) }

    // MARK: Requests

    private func act(_ chase: Chase) {
        let able = cluster.nodes.filter { $0.isInCluster && !$0.host.isFrozen }
        let bucket = buckets[pick(buckets.count)].name
        guard !able.isEmpty, let record = cluster.newestState?.bucket(named: bucket) else { return }
        let node = able[pick(able.count)]
        let draw = pick(10)
        if draw >= 6 { return compact(node, bucket, isCancellation: draw == 9, chase: chase) }
        learn()
        guard open == nil else { return }
        let isThere = record.designDocument(named: ChangingView.document) != nil
        if isThere, draw == 0 { return delete(node, bucket, chase: chase) }
        let version = pick(ChangingView.versions.count)
        if draw == 1 { develop(version, node, inBucket: bucket) }
        put(version, node, inBucket: bucket, chase: chase)
    }

    private func put(_ version: Int, _ node: SimulatedNode, inBucket bucket: String, chase: Chase) {
        let change = submit(version, bucket)
        tally[.change, "viewChange"] += 1
        submit(version, change, to: node, inBucket: bucket)
        chase(bucket, ChangingView.document)
    }

    /// Builds the index of a version that is published afterwards: both documents share it.
    private func develop(_ version: Int, _ node: SimulatedNode, inBucket bucket: String) {
        submit(version, nil, to: node, inBucket: bucket)
    }

    /// Requests to put a version: as `change` of the queried view, or for development without one.
    private func submit(
        _ version: Int,
        _ change: Change?,
        to node: SimulatedNode,
        inBucket bucket: String
    ) {
        let isPublished = change != nil
        let document = isPublished ? ChangingView.document : ChangingView.developmentDocument
        let body = ChangingView.body(version: version, request: change?.number ?? 0)
        let purpose = isPublished ? "of the view of" : "for development in"
        cluster.submit(node, "put version \(version) \(purpose) \(bucket)") { service in
            do throws(AdministrationError) {
                let put = try await service.designDocuments.putDesignDocument(
                    document,
                    body: body,
                    inBucket: bucket
                )
                change?.outcome.withLock { $0 = true }
                return (change.map { "request \($0.number), " } ?? "") + "\(put.revision)"
            } catch {
                change?.outcome.withLock { $0 = false }
                return error.description
            }
        }
    }

    private func delete(_ node: SimulatedNode, _ bucket: String, chase: Chase) {
        let change = submit(nil, bucket)
        tally[.change, "viewDeletion"] += 1
        cluster.submit(node, "delete the changing view of \(bucket)") { service in
            do throws(AdministrationError) {
                try await service.designDocuments.deleteDesignDocument(
                    ChangingView.document,
                    inBucket: bucket
                )
                change.outcome.withLock { $0 = true }
                return "request \(change.number), deleted"
            } catch {
                change.outcome.withLock { $0 = false }
                return error.description
            }
        }
        chase(bucket, ChangingView.document)
    }

    private func submit(_ version: Int?, _ bucket: String) -> Change {
        let now = cluster.world.now
        let number = histories[bucket, default: DefinitionHistory()].submit(version, at: now)
        let change = Change(bucket: bucket, number: number, submittedAt: now)
        open = change
        return change
    }

    private func compact(
        _ node: SimulatedNode,
        _ bucket: String,
        isCancellation: Bool,
        chase: Chase
    ) {
        let documents = SimulatedView.documents + [ChangingView.document]
        let document = documents[pick(documents.count)]
        tally[.change, isCancellation ? "cancelledViewCompaction" : "viewCompaction"] += 1
        cluster.submit(node, "compact views \(document) of \(bucket)") { service in
            try await service.designDocuments.compactViews(
                ofDesignDocument: document,
                inBucket: bucket
            )
            guard isCancellation else { return "begun" }
            try await service.designDocuments.cancelViewCompaction(
                ofDesignDocument: document,
                inBucket: bucket
            )
            return "cancelled"
        }
        chase(bucket, document)
    }

    // MARK: What is known

    /// The oldest definitions that may answer a query that is asked now.
    func bounds(_ bucket: String) -> DefinitionHistory.Bounds {
        learn()
        return histories[bucket]?.bounds ?? DefinitionHistory.Bounds()
    }

    /// The versions that may have answered a query.
    func versions(_ bucket: String, since oldest: Int?, until time: UInt64) -> [SimulatedView] {
        (histories[bucket]?.versions(since: oldest, until: time) ?? []).map {
            ChangingView.versions[$0]
        }
    }

    /// Since when the definition of the newest agreed state is known to be in effect; nil if a request
    /// may change it.
    func unchangedSince(_ bucket: String) -> UInt64? {
        learn()
        guard let (_, number) = newest(bucket) else { return nil }
        return histories[bucket]?.unchangedSince(number)
    }

    /// The view's document in the newest agreed state, with the number of its request.
    private func newest(_ bucket: String) -> (document: DesignDocument, request: Int)? {
        let record = cluster.newestState?.bucket(named: bucket)
        guard let document = record?.designDocument(named: ChangingView.document),
            let number = ChangingView.request(of: document.body)
        else { return nil }
        return (document, number)
    }

    /// Reads the answers of requests, and what the nodes have.
    private func learn() {
        if let change = open, let outcome = change.outcome.withLock({ $0 }) {
            if outcome { histories[change.bucket]?.confirm(change.number, at: cluster.world.now) }
            open = nil
        }
        for bucket in buckets {
            guard let (document, number) = newest(bucket.name) else { continue }
            histories[bucket.name]?.confirm(number, at: cluster.world.now)
            guard isLossless, isSettled(document, bucket.name) else { continue }
            histories[bucket.name]?.complete(number)
        }
        if let change = open,
            change.submittedAt + ViewAuthor.patienceNanoseconds < cluster.world.now
        {
            open = nil
        }
    }

    /// Whether every node has this text, and has found that its index is complete on all nodes.
    private func isSettled(_ document: DesignDocument, _ bucket: String) -> Bool {
        cluster.nodes.allSatisfy { node in
            guard node.isInCluster, let product = node.node, let indexes = product.views?.indexes,
                let record = product.administration.state.bucket(named: bucket),
                record.designDocument(named: document.name)?.body == document.body,
                let view = ChangingView.versions.first,
                let definition = indexes.definition(
                    view.name,
                    in: document.name,
                    ofBucket: record.settings.uuid
                )
            else { return false }
            let uuid = record.settings.uuid
            return document.definition.views.contains { $0.map == definition.map }
                && indexes.reputation(of: definition, ofBucket: uuid).isSettled
        }
    }
}
