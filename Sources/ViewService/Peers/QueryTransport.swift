internal import Bytes
package import Indexing
package import Seams
package import Vocabulary

/// Sends queries to nodes: over connections to other nodes, and directly to this one.
///
/// Each other node has one connection, which is opened on demand and closed after a minute without
/// queries.
///
/// - A query's events come one at a time, of another node on a reactor and never before `send` returns.
/// - After a cancellation, an event that was under way may still arrive.
package final class QueryTransport: QueryNodes {
    /// Answers a request of this node.
    package typealias Respond =
        @Sendable (QueryRequest, @escaping @Sendable (QueryReply) -> Void) -> any QueryCall

    private struct State {
        var links: [NodeNumber: QueryLink] = [:]
        var isStopped = false
    }

    private let own: @Sendable () -> NodeNumber?
    private let local: Respond
    private let connections: any QueryConnections
    private let environment: Environment
    private let limits: QueryLimits
    private let state = Guarded(State())

    /// - Parameters:
    ///   - own: This node's number, which changes when it joins a cluster; nil while it has none.
    ///   - local: Answers the requests to this node.
    ///   - connections: Opens connections to the other nodes.
    ///   - environment: The outside world.
    ///   - limits: The bounds of connections.
    package init(
        own: @escaping @Sendable () -> NodeNumber?,
        local: @escaping Respond,
        connections: any QueryConnections,
        environment: Environment,
        limits: QueryLimits = QueryLimits()
    ) {
        self.own = own
        self.local = local
        self.connections = connections
        self.environment = environment
        self.limits = limits
    }

    package func send(
        _ request: QueryRequest,
        to node: NodeNumber,
        _ event: @escaping @Sendable (QueryNodeEvent) -> Void
    ) -> any QueryCall {
        if node == own() { return local(request) { event(.reply($0)) } }
        let link = state.withLock { state -> QueryLink? in
            guard !state.isStopped else { return nil }
            if let link = state.links[node] { return link }
            let link = QueryLink(
                to: node,
                by: connections,
                environment: environment,
                limits: limits
            )
            state.links[node] = link
            return link
        }
        guard let link else {
            return QueryLink.lose("this node stops", event, environment)
        }
        return link.send(request, event)
    }

    package func answersHere(_ node: NodeNumber) -> Bool { node == own() }

    /// Ends all connections and their queries; later queries of other nodes are lost.
    package func stop() {
        let links = state.withLock { state in
            state.isStopped = true
            defer { state.links = [:] }
            return state.links
        }
        for (_, link) in links.sorted(by: { $0.key < $1.key }) { link.stop() }
    }
}

/// The connection to one node, opened on demand.
final class QueryLink: Sendable {
    private struct State {
        var caller: QueryCaller?
        var isStopped = false
    }

    private let node: NodeNumber
    private let connections: any QueryConnections
    private let environment: Environment
    private let limits: QueryLimits
    private let state = Guarded(State())

    init(
        to node: NodeNumber,
        by connections: any QueryConnections,
        environment: Environment,
        limits: QueryLimits
    ) {
        self.node = node
        self.connections = connections
        self.environment = environment
        self.limits = limits
    }

    func send(
        _ request: QueryRequest,
        _ event: @escaping CalledQueries.Event
    ) -> any QueryCall {
        let bytes = request.encoded
        guard bytes.count <= QueryLimits.requestBytesMax else {
            return QueryLink.lose("the request is too large for it", event, environment)
        }
        while let (caller, isNew) = caller() {
            let addition = caller.add(bytes, event)
            if isNew { open(caller) }
            switch addition {
            case .added(let number): return LinkedQuery(caller: caller, number: number)
            case .full:
                let reason = "it has \(QueryLimits.queriesMax) queries of this node already"
                return QueryLink.lose(reason, event, environment)
            case .ended: state.withLock { if $0.caller === caller { $0.caller = nil } }
            }
        }
        return QueryLink.lose("this node stops", event, environment)
    }

    /// The current connection, and whether it still has to be opened; nil after `stop`.
    private func caller() -> (caller: QueryCaller, isNew: Bool)? {
        state.withLock { state in
            guard !state.isStopped else { return nil }
            if let caller = state.caller { return (caller, false) }
            let caller = QueryCaller(to: node, environment: environment, limits: limits)
            state.caller = caller
            return (caller, true)
        }
    }

    private func open(_ caller: QueryCaller) {
        connections.connect(
            to: node,
            connected: { port in
                caller.attach(port)
                return caller
            },
            failed: { [environment] reason in
                // Perhaps within the call of `send`.
                environment.network.lane(ofReactor: 0).post { caller.end(reason) }
            }
        )
    }

    func stop() {
        let caller = state.withLock { state in
            state.isStopped = true
            return state.caller
        }
        caller?.stop("this node stops")
    }

    /// Reports a query as lost, after the call that began it.
    static func lose(
        _ reason: String,
        _ event: @escaping CalledQueries.Event,
        _ environment: Environment
    ) -> any QueryCall {
        environment.network.lane(ofReactor: 0).post { event(.lost(reason)) }
        return LostQuery()
    }
}

/// A query at another node.
private struct LinkedQuery: QueryCall {
    let caller: QueryCaller
    let number: UInt32

    func addCredit() { caller.addCredit(number) }
    func cancel() { caller.cancel(number) }
}

/// A query that could not be sent.
private struct LostQuery: QueryCall {
    func addCredit() {}
    func cancel() {}
}
