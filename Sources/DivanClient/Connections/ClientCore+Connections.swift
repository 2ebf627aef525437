internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// Connections: one a node, opened on demand, kept, opened again when lost.
extension ClientCore {
    func node(at address: SocketAddress) -> ClusterNode {
        if let known = nodes.first(where: { $0.address == address }) { return known }
        let node = ClusterNode(address)
        nodes.append(node)
        return node
    }

    func connectIfAllowed(_ node: ClusterNode) {
        let time = now
        switch node.state {
        case .connecting, .ready: return
        case .resting(let until) where until > time: return
        default: break
        }
        node.state = .connecting(since: time)
        let nonce = environment.entropy.hex(16)
        let connection = NodeConnection(login, nonce: nonce) { [weak self] connection, events in
            guard let self else { return }
            lane.post { self.take(events, from: connection) }
        }
        node.connection = connection
        connection.open(node.address, environment.network)
    }

    /// A rest is over: connects again where somebody would use it.
    func connectIfWanted(_ node: ClusterNode) {
        guard nodes.contains(where: { $0 === node }) else { return }
        // One connection at least is kept, or nobody would tell us of a new map.
        let isWanted = !node.waiting.isEmpty || !nodes.contains(where: \.isReady)
        if isWanted { connectIfAllowed(node) }
    }

    private func take(_ events: [NodeConnection.Event], from connection: NodeConnection) {
        if case .closed = life { return }
        guard let node = nodes.first(where: { $0.connection === connection }) else { return }
        node.heard = now
        node.isProbed = false
        for event in events {
            switch event {
            case .lost(let reason, let unsent): ended(node, reason: reason, unsent: unsent)
            case .machine(.ready(let features, let configuration)):
                node.state = .ready
                node.features = features
                node.failures = 0
                node.failure = nil
                node.trouble = nil
                if let configuration {
                    take(configuration: configuration, from: node)
                } else {
                    askForMap(of: node)
                }
                sendWaiting(to: node)
            case .machine(.answered(let ticket, let answer)):
                node.unanswered -= 1
                take(answer, ticket, from: node)
            case .machine(.pushed(let bucket, let configuration)):
                if bucket == settings.bucket { take(configuration: configuration, from: node) }
            case .machine(.failed(let failure)):
                node.failure = failure
                node.isRefused = true
            }
            if case .closed = life { return }
        }
        sendWaiting(to: node)
    }

    private func take(_ answer: Answer, _ ticket: UInt64, from node: ClusterNode) {
        switch node.flights.removeValue(forKey: ticket) {
        case nil: return
        case .operation(let operation): take(answer, for: operation, from: node)
        case .probe: return
        case .selection: node.isSelecting = false
        case .map:
            node.isAskedForMap = false
            if answer.status == Status.success.rawValue, !answer.value.isEmpty {
                take(configuration: answer.value, from: node)
            }
        }
    }

    /// The connection is gone: what left is lost, what did not goes again.
    private func ended(_ node: ClusterNode, reason: String, unsent: Set<UInt64>) {
        let flights = node.flights
        let trouble = node.verdict ?? reason
        let text = "the connection to \(node.address) was lost: \(trouble)"
        node.trouble = trouble
        node.verdict = nil
        if !node.isRefused { node.failure = nil }
        node.isRefused = false
        node.connection = nil
        node.flights = [:]
        node.unanswered = 0
        node.isAskedForMap = false
        node.isSelecting = false
        node.isProbed = false
        node.failures += 1
        let wait = RetryPolicy.waitToConnect(failures: node.failures)
        node.state = .resting(until: now + wait)
        enter(.connect(node), after: wait)
        for ticket in flights.keys.sorted() {
            guard case .operation(let operation) = flights[ticket] else { continue }
            lose(operation, hadLeft: !unsent.contains(ticket), text)
        }
        reconsiderOpening()
        if case .closed = life { return }
        askForMap(isUrgent: true)
    }

    // MARK: What nobody tells

    /// Silence, maps and nodes that left are looked for, now and then.
    func look() {
        enter(.look, after: ClientCore.lookNanoseconds)
        let time = now
        for node in nodes {
            switch node.state {
            case .connecting(let since):
                guard time - since >= settings.connectMilliseconds * 1_000_000 else { continue }
                node.verdict = "it did not let us in in time"
                hangUp(node)
            case .ready: listen(to: node, at: time)
            case .idle, .resting: continue
            }
        }
        retire()
        pollForMap(at: time)
    }

    private func listen(to node: ClusterNode, at time: UInt64) {
        guard node.unanswered > 0 else { return }
        let silence = time - node.heard
        if silence >= settings.silenceMilliseconds * 1_000_000 {
            node.verdict = "it said nothing for \(silence / 1_000_000) ms"
            hangUp(node)
        } else if silence >= settings.probeMilliseconds * 1_000_000, !node.isProbed {
            node.isProbed = true
            // Where a durable write waits for other nodes, this is answered all the same.
            let ticket = nextNumber()
            fly(.probe, ticket, node)
            node.connection?.send(
                .init(
                    ticket: ticket,
                    vBucket: VBucketID(0),
                    request: Request(.noop, isWrite: false)
                )
            )
        }
    }

    private func hangUp(_ node: ClusterNode) {
        let connection = node.connection
        connection?.close()
        // A connection that is still being opened cannot be closed; it is as good as gone.
        if case .connecting = node.state {
            ended(node, reason: "given up", unsent: [])
        }
    }

    /// Lets go of nodes that the map names no more, once nothing is under way there.
    private func retire() {
        guard let map = cache.current else { return }
        let isKept: (ClusterNode) -> Bool = { node in
            map.nodes.contains(node.address) || !node.flights.isEmpty || !node.waiting.isEmpty
        }
        let leaving = nodes.filter { !isKept($0) }
        // Never the last that speaks to us.
        guard !leaving.isEmpty, nodes.contains(where: { $0.isReady && isKept($0) }) else { return }
        nodes.removeAll { !isKept($0) }
        for node in leaving { node.connection?.close() }
    }
}
