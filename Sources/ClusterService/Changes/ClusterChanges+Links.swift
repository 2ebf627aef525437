internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary
internal import Wire

/// The streams of an HTTP feed to nodes, and the wait of its consumer for their events.
extension ClusterChanges {
    private static var begin: [UInt8] {
        let writer = ByteWriter()
        HTTPFeedRequest.begin.append(0, to: writer)
        return writer.bytes
    }

    /// Lets all nodes send changes.
    func requestChanges() {
        let links = collector.withLock { collector in
            collector.hasBegun = true
            return collector.links
        }
        for link in links.values { link.send(ClusterChanges.begin) }
    }

    /// The link to a node, opened if there is none.
    func link(to node: NodeNumber) -> ChangesLink {
        if let link = collector.withLock({ $0.links[node] }) { return link }
        let link = ChangesLink(to: node) { [weak self] link, event in
            self?.signal { if !$0.isClosed { $0.events.append((link, event)) } }
        }
        let hasBegun = collector.withLock { collector in
            collector.links[node] = link
            return collector.hasBegun
        }
        if hasBegun { link.send(ClusterChanges.begin) }
        let nodeCount = max(1, cluster.state.nodes.count)
        let opening = ChangesOpening(
            bucket: bucketUUID,
            hasValues: request.hasValues,
            snapshotsMax: UInt16(max(2, ClusterChanges.snapshotsMax / nodeCount))
        )
        cluster.streams.open(
            .feeds,
            to: node,
            request: opening.encoded,
            opened: { port in
                link.attach(port)
                return link
            },
            failed: { link.closed($0) }
        )
        return link
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
}
