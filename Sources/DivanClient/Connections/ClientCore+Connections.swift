internal import Seams
internal import Vocabulary
internal import Wire

/// Connections: one per node, opened on demand, kept, and reopened when lost.
extension ClientCore {
    /// The node of this address, which is added if the client does not know it.
    func node(at address: SocketAddress) -> ClusterNode {
        if let known = nodes.first(where: { $0.address == address }) { return known }
        let node = ClusterNode(address)
        nodes.append(node)
        return node
    }

    /// Connects unless the node is connected, connecting, or backing off.
    func connectIfAllowed(_ node: ClusterNode) {
        let time = now
        switch node.state {
        case .connecting, .ready: return
        case .backingOff(let until) where until > time: return
        default: break
        }
        node.state = .connecting(since: time)
        let nonce = environment.entropy.hex(16)
        let connection = NodeConnection(login, nonce: nonce) { [weak self] connection, events in
            guard let self else { return }
            lane.post { self.handle(events, from: connection) }
        }
        node.connection = connection
        connection.open(node.address, environment.network)
    }

    /// After a back-off: connects again if the connection is needed.
    func connectIfWanted(_ node: ClusterNode) {
        guard nodes.contains(where: { $0 === node }) else { return }
        // The client keeps at least one connection, to learn of new maps.
        let isWanted = !node.waiting.isEmpty || !nodes.contains(where: \.isReady)
        if isWanted { connectIfAllowed(node) }
    }

    private func handle(_ events: [NodeConnection.Event], from connection: NodeConnection) {
        if case .closed = life { return }
        guard let node = nodes.first(where: { $0.connection === connection }) else { return }
        node.lastReceived = now
        node.isProbed = false
        for event in events {
            switch event {
            case .lost(let reason, let unsent):
                handleLostConnection(to: node, reason: reason, unsent: unsent)
            case .machine(.ready(let features, let configuration)):
                node.state = .ready
                node.features = features
                node.failures = 0
                node.failure = nil
                node.trouble = nil
                if let configuration {
                    applyConfiguration(configuration, from: node)
                } else {
                    requestMap(of: node)
                }
                sendWaiting(to: node)
            case .machine(.answered(let ticket, let answer)):
                node.unanswered -= 1
                handle(answer, ticket, from: node)
            case .machine(.pushed(let bucket, let configuration)):
                if bucket == settings.bucket { applyConfiguration(configuration, from: node) }
            case .machine(.failed(let failure)):
                node.failure = failure
                node.isRefused = true
            }
            if case .closed = life { return }
        }
        sendWaiting(to: node)
    }

    private func handle(_ answer: Answer, _ ticket: UInt64, from node: ClusterNode) {
        switch node.flights.removeValue(forKey: ticket) {
        case nil: return
        case .operation(let operation): handle(answer, for: operation, from: node)
        case .probe: return
        case .selection: node.isSelecting = false
        case .map:
            node.isMapRequested = false
            if answer.status == Status.success.rawValue, !answer.value.isEmpty {
                applyConfiguration(answer.value, from: node)
            }
        }
    }

    /// Handles the end of a connection: writes that were sent are ambiguous, all others are
    /// retried.
    private func handleLostConnection(to node: ClusterNode, reason: String, unsent: Set<UInt64>) {
        let flights = node.flights
        let trouble = node.closeReason ?? reason
        let text = "lost the connection to \(node.address): \(trouble)"
        node.trouble = trouble
        node.closeReason = nil
        if !node.isRefused { node.failure = nil }
        node.isRefused = false
        node.connection = nil
        node.flights = [:]
        node.unanswered = 0
        node.isMapRequested = false
        node.isSelecting = false
        node.isProbed = false
        node.failures += 1
        let wait = RetryPolicy.waitToConnect(failures: node.failures)
        node.state = .backingOff(until: now + wait)
        schedule(.connect(node), after: wait)
        for ticket in flights.keys.sorted() {
            guard case .operation(let operation) = flights[ticket] else { continue }
            handleLostConnection(of: operation, hadLeft: !unsent.contains(ticket), text)
        }
        failOpeningIfRefused()
        if case .closed = life { return }
        requestMap(isUrgent: true)
    }

    // MARK: Periodic checks

    /// Checks for silent connections, newer maps and removed nodes.
    func runChecks() {
        schedule(.periodicCheck, after: ClientCore.checkIntervalNanoseconds)
        // A node that is given up may begin a connection or a request, which are later than this check's begin.
        for node in nodes {
            switch node.state {
            case .connecting(let since):
                guard now - since >= settings.connectMilliseconds * 1_000_000 else { continue }
                node.closeReason = "connecting and logging in timed out"
                disconnect(node)
            case .ready: checkSilence(of: node, at: now)
            case .idle, .backingOff: continue
            }
        }
        removeUnusedNodes()
        pollForMap()
    }

    private func checkSilence(of node: ClusterNode, at time: UInt64) {
        guard node.unanswered > 0 else { return }
        let silence = time - node.lastReceived
        if silence >= settings.silenceMilliseconds * 1_000_000 {
            node.closeReason = "no answer for \(silence / 1_000_000) ms"
            disconnect(node)
        } else if silence >= settings.probeMilliseconds * 1_000_000, !node.isProbed {
            node.isProbed = true
            // A node answers NOOP even while a durable write waits for other nodes.
            let ticket = nextNumber()
            addFlight(.probe, ticket, on: node)
            node.connection?.send(
                .init(
                    ticket: ticket,
                    vBucket: VBucketID(0),
                    request: Request(.noop, isWrite: false)
                )
            )
        }
    }

    private func disconnect(_ node: ClusterNode) {
        let connection = node.connection
        connection?.close()
        // An unopened connection has no port to close and reports no `lost`: handle the loss here.
        if case .connecting = node.state {
            handleLostConnection(to: node, reason: "connecting was aborted", unsent: [])
        }
    }

    /// Removes nodes that the map no longer names and that have no pending operations.
    private func removeUnusedNodes() {
        guard let map = cache.current else { return }
        let isKept: (ClusterNode) -> Bool = { node in
            map.nodes.contains(node.address) || !node.flights.isEmpty || !node.waiting.isEmpty
        }
        let leaving = nodes.filter { !isKept($0) }
        // Keep the last connected node.
        guard !leaving.isEmpty, nodes.contains(where: { $0.isReady && isKept($0) }) else { return }
        nodes.removeAll { !isKept($0) }
        for node in leaving { node.connection?.close() }
    }
}
