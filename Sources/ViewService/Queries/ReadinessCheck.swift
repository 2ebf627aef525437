internal import Bytes
internal import Indexing
internal import JSON
internal import Seams

/// Finds out when indexes that were new are complete on all nodes, and settles their definitions.
///
/// It asks the nodes by the same messages as a query: for no rows, of the current index, if that is complete.
/// Every node does so for itself, until all its definitions are settled; then nothing runs.
package final class ReadinessCheck: Sendable {
    /// Returns the node's index service and the dependencies of its queries.
    package typealias IndexNode =
        @Sendable () -> (service: IndexService, queries: QueryRun.Dependencies)?

    private struct State {
        var isStopped = false
        /// Whether a round is running or due.
        var isRunning = false
        /// Whether the views changed during a round.
        var isChanged = false
        var pause = ReadinessCheck.pauseNanosecondsMin
        var round: Task<Void, Never>?
    }

    private static let pauseNanosecondsMin: UInt64 = 100_000_000
    private static let pauseNanosecondsMax: UInt64 = 3_200_000_000
    private static let timeoutMilliseconds = 5_000

    private let node: IndexNode
    private let state = Guarded(State())
    private let slots = QuerySlots(1)

    /// A check that runs after `viewsChanged`; `node` is nil while the node has no views.
    package init(_ node: @escaping IndexNode) {
        self.node = node
    }

    /// Begins to ask for what is not settled.
    package func viewsChanged() {
        let begins = state.withLock { state in
            state.isChanged = true
            state.pause = ReadinessCheck.pauseNanosecondsMin
            return !exchange(&state.isRunning, with: true) && !state.isStopped
        }
        if begins { begin() }
    }

    /// Asks nothing any more.
    package func stop() {
        let round = state.withLock { state in
            state.isStopped = true
            return exchange(&state.round, with: nil)
        }
        round?.cancel()
    }

    // MARK: Rounds

    /// Begins a round if something is not settled.
    private func begin() {
        state.withLock { $0.isChanged = false }
        guard let node = node(), !node.service.unsettledBuckets.isEmpty else { return end() }
        state.withLock { state in
            guard !state.isStopped else { return }
            state.round = LaneExecutor(node.queries.lane).spawn { [self] in
                var queries = node.queries
                queries.slots = slots
                await ask(node.service, queries)
                pause(node.queries.lane)
            }
        }
    }

    private func end() {
        let isDue = state.withLock { state in
            state.isRunning = state.isChanged && !state.isStopped
            return state.isRunning
        }
        if isDue { begin() }
    }

    private func pause(_ lane: any Lane) {
        let pause = state.withLock { state in
            defer { state.pause = min(2 * state.pause, ReadinessCheck.pauseNanosecondsMax) }
            return state.pause
        }
        lane.post(after: pause) { [weak self] in
            guard let self, !state.withLock({ $0.isStopped }) else { return }
            begin()
        }
    }

    private func ask(_ service: IndexService, _ dependencies: QueryRun.Dependencies) async {
        for bucket in service.unsettledBuckets {
            for definition in service.unsettled(ofBucket: bucket.uuid) {
                let signature = IndexSigning.signature(of: definition)
                // Then it is not complete everywhere.
                guard service.isUsable(signature, ofBucket: bucket.uuid) else { continue }
                let bucket = QueryRun.Bucket(uuid: bucket.uuid, name: bucket.name)
                if await isComplete(signature, in: bucket, dependencies) {
                    service.retirePrevious(of: definition, ofBucket: bucket.uuid)
                }
            }
        }
    }

    /// Whether all nodes that serve have everything in this index.
    private func isComplete(
        _ signature: IndexSignature,
        in bucket: QueryRun.Bucket,
        _ dependencies: QueryRun.Dependencies
    ) async -> Bool {
        var query = ViewQuery()
        query.limit = 0
        query.freshness = .any
        query.timeoutMilliseconds = ReadinessCheck.timeoutMilliseconds
        // With a previous index, nodes whose index is not complete answer at once.
        let index = QueryRequest.IndexSelection(
            choice: IndexChoice(current: signature, previous: signature),
            collation: Collation.version
        )
        let version = QueryRun.Version(QueryPlan(query), index: index, reduction: .none)
        let beginning = await QueryRun.begin(QueryRun.Query(of: bucket, version), dependencies)
        guard case .open(let run) = beginning else { return false }
        defer { run.cancel() }
        while true {
            do throws(CancellationError) {
                if case .end(let isPartial) = try await run.next() { return !isPartial }
            } catch {
                return false
            }
        }
    }
}
