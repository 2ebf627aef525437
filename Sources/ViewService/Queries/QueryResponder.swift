internal import Bytes
package import Indexing
package import ScriptProcesses
package import Seams

/// Answers queries of other nodes, or of this one, from the indexes of this node.
///
/// Each query is a `QueryResponse`, which has one of the responder's lanes and a turn there for each
/// batch.
package final class QueryResponder: Sendable {
    /// The node's services and limits that the responses use.
    package struct Dependencies: Sendable {
        let environment: Environment
        let changes: any DocumentChangePort
        let scripts: ScriptPool
        let buckets: any ServedBuckets
        package var stall = StallRule.Limits()

        /// The dependencies of responses.
        package init(
            environment: Environment,
            changes: any DocumentChangePort,
            scripts: ScriptPool,
            buckets: any ServedBuckets
        ) {
            self.environment = environment
            self.changes = changes
            self.scripts = scripts
            self.buckets = buckets
        }
    }

    private struct State {
        var responses: [UInt64: QueryResponse] = [:]
        var numbers: UInt64 = 0
        var isStopped = false
    }

    private let dependencies: Dependencies
    /// Not empty; their owner stops them after the responder.
    private let lanes: [any Lane]
    private let state = Guarded(State())

    /// A responder without queries that works on `lanes`, of which there is at least one.
    package init(_ dependencies: Dependencies, lanes: [any Lane]) {
        precondition(!lanes.isEmpty, "a responder has a lane")
        self.dependencies = dependencies
        self.lanes = lanes
    }

    /// The queries that are being answered.
    package var queryCount: Int { state.withLock { $0.responses.count } }

    /// Answers a query; from any thread.
    ///
    /// - Parameters:
    ///   - request: The query.
    ///   - onThisThread: Whether the answer may begin on the calling thread, before this call returns.
    ///     It reads the index there.
    ///   - reply: Called by one thread at a time, in order. The last reply is neither a start nor a
    ///     batch; after `cancel` there may be none.
    /// - Returns: The answer's steering: credit for batches, and its end.
    package func respond(
        to request: QueryRequest,
        onThisThread: Bool = false,
        _ reply: @escaping @Sendable (QueryReply) -> Void
    ) -> any QueryCall {
        let number = state.withLock { state in
            state.numbers += 1
            return state.numbers
        }
        let response = QueryResponse(
            request,
            dependencies,
            on: lanes[Int(number % UInt64(lanes.count))],
            reply: reply
        ) { [weak self] in
            self?.state.withLock { _ = $0.responses.removeValue(forKey: number) }
        }
        let isStopped = state.withLock { state in
            if !state.isStopped { state.responses[number] = response }
            return state.isStopped
        }
        if isStopped { response.stop() } else { response.begin(onThisThread: onThisThread) }
        return response
    }

    /// The served vBuckets, the map's revision or the indexes have changed; from any thread.
    package func bucketsChanged() {
        for response in state.withLock({ Array($0.responses.values) }) { response.bucketsChanged() }
    }

    /// Ends all queries with a failure, and refuses later ones; from any thread.
    ///
    /// Call it before the script pool is stopped, which leaves calls unanswered.
    package func stop() {
        let responses = state.withLock { state in
            state.isStopped = true
            return Array(state.responses.values)
        }
        for response in responses { response.stop() }
    }
}
