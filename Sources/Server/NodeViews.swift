internal import Bytes
internal import ClusterService
internal import Indexing
package import ScriptProcesses
internal import Seams
package import ViewService

/// The views of a node: their indexes, and queries, connected to its other services.
///
/// Without views and queries it has no lane, no file and no process of its own.
package final class NodeViews: Sendable {
    private let environment: Environment
    private let programs: ScriptPrograms
    private let opening: IndexOpening
    private let reconciler: ViewReconciler
    private let links: QueryTransport
    private let acceptor: QueryAcceptor
    private let documents: IncludedDocumentReader
    private let meter: ViewMeter
    private let keys = KeyMemory()
    private let latencies = QueryLatencies()
    private let readiness = Guarded<ReadinessCheck?>(nil)
    private let queries = Guarded(Queries())

    /// The lane and the slots that the queries of clients to this node share.
    private struct Queries {
        /// Nil before the first query.
        var lane: (any Lane)?
        let slots = QuerySlots()
        var isStopped = false
    }

    init(
        _ opening: IndexOpening,
        _ administration: AdministrationService,
        environment: Environment
    ) {
        self.environment = environment
        let programs = opening.programs
        self.programs = programs
        self.opening = opening
        reconciler = ViewReconciler(administration, opening)
        documents = IncludedDocumentReader(administration)
        let meter = ViewMeter(environment.time, of: { opening.service })
        self.meter = meter
        // Samples and other nodes ask every second.
        let last = Guarded((number: UInt64(0), statistics: ViewStatistics()))
        administration.statistics.readViews {
            guard let reading = meter.read() else { return nil }
            return last.withLock { last in
                if last.number != reading.number {
                    last = (reading.number, ViewStatistics(reading))
                }
                return last.statistics
            }
        }
        let responders = Responders(opening: opening, programs: programs)
        links = QueryTransport(
            own: { [weak administration] in administration?.thisNode },
            local: { responders.respond(to: $0, onThisThread: true, $1) },
            streams: administration.cluster.streams,
            environment: environment
        )
        acceptor = QueryAcceptor(
            respond: { responders.respond(to: $0, onThisThread: false, $1) },
            streams: administration.cluster.streams,
            environment: environment,
            keys: keys
        )
    }

    /// Answers queries of this node and of others.
    private struct Responders: Sendable {
        let opening: IndexOpening
        let programs: ScriptPrograms

        /// Answers a query; on a reactor, no part of the answer may be read on the calling thread.
        func respond(
            to request: QueryRequest,
            onThisThread: Bool,
            _ reply: @escaping @Sendable (QueryReply) -> Void
        ) -> any QueryCall {
            if let obstacle = programs.obstacle {
                // Without script processes, the query would wait for changes that are never indexed.
                reply(.failed(obstacle))
                return EndedQuery()
            }
            if let service = opening.service {
                return service.respond(to: request, onThisThread: onThisThread, reply)
            }
            if let failure = opening.failure {
                reply(.failed("\(failure). Remove the cause, then retry the query."))
                return EndedQuery()
            }
            // This node follows an older state than the one that asks, or stops. The query starts
            // again after a pause.
            reply(.moved(0))
            return EndedQuery()
        }
    }

    /// A query that was answered at once.
    private struct EndedQuery: QueryCall {
        func addCredit() {}
        func cancel() {}
    }

    // MARK: Life

    /// Follows the views of the agreed state; call it before the buckets are opened.
    func start() {
        if let obstacle { environment.trace.error("views", obstacle) }
        let check = ReadinessCheck { [weak self] in
            guard let self, let indexes, var dependencies else { return nil }
            // Its queries are none of clients.
            dependencies.latencies = QueryLatencies()
            return (indexes, dependencies)
        }
        readiness.withLock { $0 = check }
        reconciler.whenReconciled { [weak check] in check?.viewsChanged() }
        reconciler.start(hasFiles: opening.hasFiles)
    }

    /// Ends queries, indexes and script processes; idempotent.
    func stop() async {
        reconciler.stop()
        readiness.withLock { $0 }?.stop()
        links.stop()
        let lane = queries.withLock { queries in
            defer { queries.lane = nil }
            queries.isStopped = true
            return queries.lane
        }
        await opening.stop()
        lane?.stop()
    }

    // MARK: Queries

    /// The index service; nil while the node has no views, and once it stops.
    package var indexes: IndexService? { opening.service }

    /// The newest figures of the node's indexes, queries and script processes; nil without views.
    ///
    /// They are at most some seconds old; nothing waits for them.
    package var reading: ViewReading? {
        var reading = meter.read()
        reading?.latencies = latencies.readings { [reconciler] bucket in
            reconciler.servingMap(ofBucket: bucket.uuid) != nil
        }
        return reading
    }

    /// The script processes, made if there are none; nil once the node stops, or if they cannot run.
    package func openScripts() -> ScriptPool? {
        guard programs.obstacle == nil else { return nil }
        return opening.open()?.scripts
    }

    /// Why views do not work on this node, as a sentence for an operator; nil if they do.
    ///
    /// An opening that failed is repeated: a full disk may have room again.
    package var obstacle: String? {
        if let obstacle = programs.obstacle { return obstacle }
        if opening.failure != nil { _ = opening.open() }
        return opening.failure
    }

    /// The dependencies of clients' queries on this node; nil while it has no views, and once it stops.
    package var dependencies: QueryRun.Dependencies? {
        guard let scripts = indexes?.scripts else { return nil }
        let shared: (lane: any Lane, slots: QuerySlots)? = queries.withLock { queries in
            guard !queries.isStopped else { return nil }
            let lane = queries.lane ?? environment.lanes.makeLane("queries")
            queries.lane = lane
            return (lane, queries.slots)
        }
        guard let shared else { return nil }
        var dependencies = QueryRun.Dependencies(
            environment: environment,
            lane: shared.lane,
            scripts: scripts,
            ports: QueryRun.Ports(nodes: links, maps: reconciler, documents: documents),
            slots: shared.slots
        )
        dependencies.keys = keys
        dependencies.latencies = latencies
        return dependencies
    }
}
