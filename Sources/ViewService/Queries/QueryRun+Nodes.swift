internal import Indexing
internal import Seams
internal import Vocabulary

/// The nodes of a query: carries out the actions of the coordination, and passes events to it.
extension QueryRun {
    /// The calls, timers, observation and reads that the run holds until it ends.
    struct Links {
        /// By node and attempt.
        var calls: [CallID: any QueryCall] = [:]
        var observation: (any Observation)?
        var timers: [LaneTimer] = []
        /// When the coordination is to be advanced, before the run watches its opening.
        var wakeTimes: [UInt64] = []
        /// Whether timers are set and the map is observed.
        var isWatching = false
        /// The requests of the newest attempt.
        var dispatches: [QueryCoordination.Dispatch] = []
        var names: [NodeNumber: String] = [:]
        /// Reads documents.
        var reading: Task<Void, Never>?

        /// Neither the map nor the time matters to an open query.
        mutating func endOpening() {
            for timer in timers { timer.cancel() }
            timers = []
            wakeTimes = []
            observation?.cancel()
            observation = nil
        }

        mutating func end() {
            endOpening()
            for (_, call) in calls.sorted(by: { $0.key < $1.key }) { call.cancel() }
            calls = [:]
            reading?.cancel()
            reading = nil
        }
    }

    struct CallID: Hashable, Comparable {
        let node: NodeNumber
        let attempt: Int

        static func < (one: CallID, other: CallID) -> Bool {
            one.attempt == other.attempt ? one.node < other.node : one.attempt < other.attempt
        }
    }

    // MARK: Actions

    func perform(_ actions: [QueryCoordination.Action]) {
        for action in actions {
            switch action {
            case .send(let dispatch): send(dispatch)
            case .cancel(let node, let attempt):
                links.calls.removeValue(forKey: CallID(node: node, attempt: attempt))?.cancel()
            case .open(let totalRows): open(totalRows: totalRows)
            case .wake(let time): wake(at: time)
            }
        }
    }

    private func send(_ dispatch: QueryCoordination.Dispatch) {
        let id = CallID(node: dispatch.node, attempt: dispatch.attempt)
        if links.dispatches.first?.attempt != dispatch.attempt { links.dispatches = [] }
        links.dispatches.append(dispatch)
        let now = now
        let version = version
        var index = version.index
        index.choice = query.choice(dispatch.use)
        var request = QueryRequest(
            bucket: query.bucket.uuid,
            index: index,
            scan: version.plan.scan,
            freshness: version.plan.freshness
        )
        request.mapRevision = dispatch.mapRevision
        request.vBuckets = dispatch.vBuckets
        request.startMillisecondsMax = deadline > now ? deadline - now : 0
        let (nodes, lane) = (dependencies.ports.nodes, dependencies.lane)
        let isHere = nodes.answersHere(id.node)
        links.calls[id] = nodes.send(request, to: id.node) { [weak self] event in
            if isHere {
                self?.step { $0.handle(event, of: id) }
            } else {
                lane.post { [weak self] in self?.step { $0.handle(event, of: id) } }
            }
        }
    }

    /// Sets the timers and observes the map, unless the query is open.
    ///
    /// A short query of this node's rows is: registering and removing both would cost more than its rows.
    func watchOpening() {
        guard stage == .opening else { return }
        links.isWatching = true
        observeMap()
        for time in links.wakeTimes { wake(at: time) }
        links.wakeTimes = []
    }

    private func wake(at time: UInt64) {
        guard stage == .opening else { return }
        guard links.isWatching else { return links.wakeTimes.append(time) }
        let now = now
        let milliseconds = time > now ? time - now : 0
        let timer = dependencies.lane.post(after: milliseconds * 1_000_000) { [weak self] in
            self?.step { $0.advance() }
        }
        links.timers.append(timer)
    }

    private func advance() {
        guard stage == .opening else { return }
        perform(coordination.advance(now: now))
    }

    /// Runs a step of this run.
    func step(_ body: @escaping @Sendable (QueryRun) -> Void) {
        steps.post { body(self) }
    }

    // MARK: Events

    /// Follows the map; one that became newer since the run was made is adopted at once.
    private func observeMap() {
        let (maps, bucket, lane) = (dependencies.ports.maps, query.bucket.uuid, dependencies.lane)
        links.observation = maps.observe(bucket: bucket) { [weak self] map in
            lane.post { [weak self] in self?.step { $0.adopt(map) } }
        }
        if let map = maps.servingMap(ofBucket: bucket) { adopt(map) }
    }

    private func adopt(_ map: QueryCoordination.ServingMap) {
        guard stage == .opening else { return }
        perform(coordination.adopt(map, now: now))
    }

    private func handle(_ event: QueryNodeEvent, of id: CallID) {
        guard stage == .opening || stage == .rows else { return }
        let (node, attempt, now) = (id.node, id.attempt, now)
        switch event {
        case .reply(let reply):
            if reply.isLast { links.calls[id] = nil }
            perform(coordination.handle(reply, from: node, attempt: attempt, now: now))
        case .lost(let why):
            links.calls[id] = nil
            perform(coordination.lose(node, attempt: attempt, because: why, now: now))
        }
        proceed()
    }

    /// Requests a batch for each one that was consumed.
    func addCredits() {
        let attempt = coordination.attempt
        for node in coordination.removeCredits() {
            links.calls[CallID(node: node, attempt: attempt)]?.addCredit()
        }
    }

    /// The node's view port as `host:port`.
    func name(of node: NodeNumber) -> String {
        if let name = links.names[node] { return name }
        let name = dependencies.ports.maps.name(of: node)
        links.names[node] = name
        return name
    }
}
