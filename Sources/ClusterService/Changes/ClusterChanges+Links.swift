internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary
internal import Wire

/// The connections of an HTTP feed to nodes, and the wait of its consumer for their events.
extension ClusterChanges {
    private var nodeCount: Int { max(1, service.state.nodes.count) }

    static func credit(_ bytes: Int) -> [UInt8] {
        let writer = ByteWriter()
        ChangesFrame.append(.credit, to: writer) { $0.append(bigEndian: UInt32(bytes)) }
        return writer.bytes
    }

    private var window: Int { ClusterChanges.windowBytes / nodeCount }

    func grantFirstCredit() {
        let links = collector.withLock { collector in
            collector.hasBegun = true
            return collector.links
        }
        for link in links.values { link.link.send(ClusterChanges.credit(window)) }
    }

    /// The link to a node, opened if there is none.
    func link(to node: NodeNumber) -> any ChangesLink {
        if let link = collector.withLock({ $0.links[node] }) { return link.link }
        let now = now
        let number = inbox.withLock { inbox in
            inbox.linkCount += 1
            inbox.receivedAt[inbox.linkCount] = now
            return inbox.linkCount
        }
        let report: @Sendable (ChangesLinkEvent) -> Void = { [weak self] event in
            self?.receive(event, of: number)
        }
        let link = connect(to: node, report)
        let hasBegun = collector.withLock { collector in
            collector.links[node] = Link(number: number, link: link)
            return collector.hasBegun
        }
        let writer = ByteWriter()
        let opening = ChangesOpening(
            bucket: bucketUUID,
            hasValues: request.hasValues,
            snapshotsMax: UInt16(max(2, ClusterChanges.snapshotsMax / nodeCount))
        )
        opening.append(to: writer)
        if hasBegun { writer.append(ClusterChanges.credit(window)) }
        link.send(writer.bytes)
        return link
    }

    private func connect(
        to node: NodeNumber,
        _ report: @escaping @Sendable (ChangesLinkEvent) -> Void
    ) -> any ChangesLink {
        if node == service.thisNode, let answer = service.settings.answerChanges {
            return LocalChangesLink(lane: lane, accept: answer, report: report)
        }
        let link = RemoteChangesLink(report: report)
        service.transport.open(
            .feeds,
            to: node,
            connected: { port in
                link.attach(port)
                return link
            },
            failed: { report(.lost($0.description)) }
        )
        return link
    }

    private func receive(_ event: ChangesLinkEvent, of number: UInt64) {
        let now = now
        signal { inbox in
            inbox.receivedAt[number] = now
            if !inbox.isClosed { inbox.events.append((number, event)) }
        }
    }

    // MARK: Waiting

    /// Changes the inbox and wakes the consumer.
    func signal(_ change: (inout Inbox) -> Void) {
        let waiter = inbox.withLock { inbox in
            change(&inbox)
            inbox.isWoken = true
            defer { inbox.waiter = nil }
            return inbox.waiter
        }
        waiter?.resume()
    }

    func wait(until deadline: UInt64) async {
        let now = now
        let due = min(deadline, collector.withLock { $0.retryAt } ?? deadline)
        guard due > now else { return }
        let timer = lane.post(after: due - now) { [weak self] in self?.signal { _ in } }
        await withUnsafeContinuation { (waiter: UnsafeContinuation<Void, Never>) in
            let isDue = inbox.withLock { inbox in
                guard !inbox.isWoken, !inbox.isClosed else {
                    inbox.isWoken = false
                    return true
                }
                inbox.waiter = waiter
                return false
            }
            if isDue { waiter.resume() }
        }
        inbox.withLock { $0.isWoken = !$0.events.isEmpty || $0.mapChanged }
        timer.cancel()
    }

    /// Sends pings, and ends links to nodes that are silent.
    func postTick() {
        let timer = lane.post(after: ClusterChanges.pingNanoseconds) { [weak self] in self?.tick() }
        let isClosed = inbox.withLock { inbox in
            inbox.tick = timer
            return inbox.isClosed
        }
        if isClosed { timer.cancel() }
    }

    private func tick() {
        let now = now
        let (isClosed, received) = inbox.withLock { ($0.isClosed, $0.receivedAt) }
        guard !isClosed else { return }
        let links = collector.withLock { Array($0.links.values) }
        let writer = ByteWriter()
        ChangesFrame.append(.ping, to: writer)
        for link in links {
            let silence = now - min(received[link.number] ?? now, now)
            if silence < ClusterChanges.silenceNanoseconds {
                link.link.send(writer.bytes)
            } else {
                link.link.close()
                receive(.lost("it did not answer"), of: link.number)
            }
        }
        postTick()
    }
}
