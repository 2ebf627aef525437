internal import Bytes
internal import Engine
internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Ends an active copy when a replica is far behind, or inside a snapshot.
///
/// Replicas usually receive a snapshot as a whole. Here they miss some changes, receive them later
/// as one snapshot, and run out of memory inside it.
extension Chaos {
    static let snapshotTimeoutNanoseconds: UInt64 = 600_000_000
    private static let failoverTimeoutNanoseconds: UInt64 = 8_000_000_000

    /// A vBucket with an active copy and two replicas, all running; nil if there is none.
    func rowToAttack() -> Row? {
        guard isWhole(), let state = cluster.newestState else { return nil }
        let rows = rows(state).filter { $0.copies.count > 2 && $0.isThere }
        return rows.isEmpty ? nil : rows[Int(random.next() % UInt64(rows.count))]
    }

    func chaseLaggard() {
        guard let row = rowToAttack() else { return }
        let active = row.active
        let late = row.owners[1 + Int(random.next() % UInt64(row.owners.count - 1))].node
        let delay = 20_000_000 + random.next() % 100_000_000
        last(
            2_000_000_000,
            .slow(from: active.address, to: late.address, nanoseconds: delay),
            end: .slow(from: active.address, to: late.address, nanoseconds: 0)
        )
        cluster.world.after(200_000_000 + random.next() % 600_000_000) { [weak self] in
            guard let self, !isOver, row.isThere else { return }
            silence(active, because: "\(late.address) is behind")
        }
    }

    /// Disconnects one replica from the active copy for a while, and delays or disconnects the
    /// other; then they receive the missed changes as one snapshot that exceeds their memory.
    func chaseSnapshots() {
        guard let row = rowToAttack() else { return }
        let active = row.active
        var others = row.owners.dropFirst().map(\.node).shuffled(using: &random)
        let isLate = random.next() & 1 == 0
        if isLate, let late = others.popLast() {
            let delay = 30_000_000 + random.next() % 100_000_000
            last(
                Chaos.snapshotTimeoutNanoseconds,
                .slow(from: active.address, to: late.address, nanoseconds: delay),
                end: .slow(from: active.address, to: late.address, nanoseconds: 0)
            )
        }
        let now = cluster.world.now
        var deaf: [Deaf] = []
        for node in others {
            let cut = Deaf(
                node: node,
                hears: now + 100_000_000 + random.next() % 200_000_000,
                room: 20 + random.next() % 200
            )
            deaf.append(cut)
            cluster.world.after(random.next() % 50_000_000) { [weak self] in
                guard let self, !isOver, row.isThere else { return }
                let (here, there) = (active.address, node.address)
                let length = cut.hears - cluster.world.now
                cluster.world.apply(.clog(from: here, to: there, nanoseconds: length))
            }
            cluster.world.after(cut.hears - now - 500_000) { [weak self] in
                guard let self, !isOver, row.isThere else { return }
                cluster.world.apply(.cutConnections(active.address, node.address))
            }
        }
        cluster.world.after(90_000_000) { [weak self] in
            self?.awaitSnapshots(row, deaf, until: now + Chaos.snapshotTimeoutNanoseconds)
        }
    }

    /// Restores memory only after another node serves: the rest of the snapshot has been received,
    /// and a replica with memory would apply it.
    func releaseOnceFailedOver(_ node: SimulatedNode) {
        let end = cluster.world.now + Chaos.failoverTimeoutNanoseconds
        releaseOnceFailedOver(node, until: end)
    }

    private func releaseOnceFailedOver(_ node: SimulatedNode, until end: UInt64) {
        guard !isOver else { return }
        let state = cluster.newestState
        let number = state?.nodes.first { $0.host == node.address }?.number
        let serves = state?.buckets.contains { bucket in
            bucket.placements.contains { $0.chain.first == number || !$0.isConfirmed }
        }
        guard serves == true, cluster.world.now < end, !node.host.isRunning else {
            return release()
        }
        cluster.world.after(10_000_000) { [weak self] in
            self?.releaseOnceFailedOver(node, until: end)
        }
    }

    /// A replica that is disconnected until the time `hears`, and then has memory for `room` bytes
    /// at a time.
    private struct Deaf {
        let node: SimulatedNode
        let hears: UInt64
        let room: UInt64
    }

    /// Limits the replicas' memory until each is inside a snapshot, then ends the active copy.
    private func awaitSnapshots(_ row: Row, _ deaf: [Deaf], until end: UInt64) {
        guard !isOver else { return }
        let active = row.active
        guard cluster.world.now < end, row.isThere else { return release() }
        let outside = deaf.filter { !row.isInside($0.node) }
        for replica in outside { squeeze(replica.node, leaving: replica.room) }
        guard outside.isEmpty else {
            return cluster.world.after(Chaos.intervalNanoseconds) { [weak self] in
                self?.awaitSnapshots(row, deaf, until: end)
            }
        }
        // Responses to acknowledged writes may be in transit.
        cluster.world.after(random.next() % 3_000_000) { [weak self] in
            guard let self, !isOver else { return }
            guard active.host.isRunning else { return release() }
            silence(active, because: "copies are inside a snapshot")
            releaseOnceFailedOver(active)
        }
    }
}

extension Chaos.Row {
    /// Whether the node's replica is inside a snapshot.
    fileprivate func isInside(_ node: SimulatedNode) -> Bool {
        copy(on: node).map { $0.isInsideSnapshot(of: fence) } ?? false
    }

    /// The replica on a node; nil if it has none.
    func copy(on node: SimulatedNode) -> VBucket? {
        zip(owners, copies).dropFirst().first { $0.0.node === node }?.1
    }
}

extension VBucket {
    fileprivate func isInsideSnapshot(of fence: UInt64) -> Bool {
        withCore { $0.follows(fence) && $0.coveredSeqno < $0.highSeqno }
    }
}
