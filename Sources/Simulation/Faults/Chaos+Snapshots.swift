internal import Bytes
internal import Engine
internal import Orchestration
internal import SimulatedPlatform
internal import Vocabulary

/// Active copies that end when one of the others is far behind, or inside a snapshot.
///
/// Copies take a snapshot in one piece as a rule. So they are made to miss some of the changes, which
/// come as one snapshot afterwards, and then their memory ends in the middle of it.
extension Chaos {
    static let snapshotPatience: UInt64 = 600_000_000
    private static let failoverPatience: UInt64 = 8_000_000_000

    /// A vBucket with two copies beside the active one, all of them well.
    func rowToHurt() -> Row? {
        guard isWhole(), let state = cluster.newestState else { return nil }
        let rows = rows(state).filter { $0.copies.count > 2 && $0.isThere }
        return rows.isEmpty ? nil : rows[Int(random.next() % UInt64(rows.count))]
    }

    func chaseLaggard() {
        guard let row = rowToHurt() else { return }
        let active = row.active
        let late = row.owners[1 + Int(random.next() % UInt64(row.owners.count - 1))].node
        let delay = 20_000_000 + random.next() % 100_000_000
        last(
            2_000_000_000,
            .slow(from: active.address, to: late.address, nanoseconds: delay),
            .slow(from: active.address, to: late.address, nanoseconds: 0)
        )
        cluster.world.after(200_000_000 + random.next() % 600_000_000) { [weak self] in
            guard let self, !isOver, row.isThere else { return }
            silence(active, because: "\(late.address) is behind")
        }
    }

    /// One copy hears nothing of the active one for a while, and the third hears late, or nothing
    /// either; then all they missed comes as one snapshot, and there is no memory for all of it.
    func chaseSnapshots() {
        guard let row = rowToHurt() else { return }
        let active = row.active
        var others = row.owners.dropFirst().map(\.node).shuffled(using: &random)
        let isLate = random.next() & 1 == 0
        if isLate, let late = others.popLast() {
            let delay = 30_000_000 + random.next() % 100_000_000
            last(
                Chaos.snapshotPatience,
                .slow(from: active.address, to: late.address, nanoseconds: delay),
                .slow(from: active.address, to: late.address, nanoseconds: 0)
            )
        }
        let now = cluster.world.now
        var deaf: [Deaf] = []
        for node in others {
            let one = Deaf(
                node: node,
                hears: now + 100_000_000 + random.next() % 200_000_000,
                room: 20 + random.next() % 200
            )
            deaf.append(one)
            cluster.world.after(random.next() % 50_000_000) { [weak self] in
                guard let self, !isOver, row.isThere else { return }
                let (here, there) = (active.address, node.address)
                let length = one.hears - cluster.world.now
                cluster.world.apply(.clog(from: here, to: there, nanoseconds: length))
            }
            cluster.world.after(one.hears - now - 500_000) { [weak self] in
                guard let self, !isOver, row.isThere else { return }
                cluster.world.apply(.cutConnections(active.address, node.address))
            }
        }
        cluster.world.after(90_000_000) { [weak self] in
            self?.awaitSnapshots(row, deaf, until: now + Chaos.snapshotPatience)
        }
    }

    /// Whoever is short of memory stays so until somebody else serves: the rest of a snapshot is with it
    /// already, and it would take that up.
    func releaseOnceFailedOver(_ node: SimulatedNode) {
        let end = cluster.world.now + Chaos.failoverPatience
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

    /// A node that hears nothing for a while, and has room for so many bytes at a time then.
    private struct Deaf {
        let node: SimulatedNode
        let hears: UInt64
        let room: UInt64
    }

    /// Who is to be inside has room for little more at a time, until all are.
    private func awaitSnapshots(_ row: Row, _ deaf: [Deaf], until end: UInt64) {
        guard !isOver else { return }
        let active = row.active
        guard cluster.world.now < end, row.isThere else { return release() }
        let outside = deaf.filter { !row.isInside($0.node) }
        for one in outside { squeeze(one.node, leaving: one.room) }
        guard outside.isEmpty else {
            return cluster.world.after(Chaos.interval) { [weak self] in
                self?.awaitSnapshots(row, deaf, until: end)
            }
        }
        // Answers to what was acknowledged may be on their way.
        cluster.world.after(random.next() % 3_000_000) { [weak self] in
            guard let self, !isOver else { return }
            guard active.host.isRunning else { return release() }
            silence(active, because: "copies are inside a snapshot")
            releaseOnceFailedOver(active)
        }
    }
}

extension Chaos.Row {
    /// The copy on this node, which follows the active one.
    fileprivate func isInside(_ node: SimulatedNode) -> Bool {
        copy(on: node).map { $0.isInsideSnapshot(of: fence) } ?? false
    }

    func copy(on node: SimulatedNode) -> VBucket? {
        zip(owners, copies).dropFirst().first { $0.0.node === node }?.1
    }
}

extension VBucket {
    fileprivate func isInsideSnapshot(of fence: UInt64) -> Bool {
        withCore { $0.follows(fence) && $0.coveredSeqno < $0.highSeqno }
    }
}
