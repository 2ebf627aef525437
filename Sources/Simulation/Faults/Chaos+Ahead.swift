internal import Bytes
internal import Engine
internal import SimulatedPlatform
internal import Vocabulary

/// Ends an active copy when the replica with the higher high seqno covers less than the other
/// replica.
///
/// 1. One replica receives nothing; the other receives a durable write, and then nothing more.
/// 2. The other replica's acknowledgement decides the write.
/// 3. The first replica receives all missed changes as one snapshot, which has the write at the
///    seqno of its decision, after the other replica's covered seqno; its memory runs out inside
///    the snapshot.
extension Chaos {
    private static let closeInterval: UInt64 = 50_000

    /// The active copy, two replicas, and a durable write that one of the replicas has.
    private struct Ahead {
        let row: Row
        /// The replica that will have the higher high seqno.
        let node: SimulatedNode
        /// The replica that covers more.
        let whole: SimulatedNode
        let end: UInt64
        /// The durable write that was outstanding when `whole` received its last change.
        var write: Seqno?
        /// The active copy's high seqno before that write was decided.
        var high = Seqno.zero

        var active: SimulatedNode { row.active }
    }

    func chaseAhead() {
        guard let row = rowToAttack() else { return }
        let others = row.owners.dropFirst().map(\.node).shuffled(using: &random)
        guard let node = others.first, let whole = others.last, node !== whole else { return }
        let end = cluster.world.now + 1_500_000_000
        let deaf = 30_000_000 + random.next() % 150_000_000
        let chase = Ahead(row: row, node: node, whole: whole, end: end)
        cluster.world.apply(
            .clog(from: row.active.address, to: node.address, nanoseconds: 1_500_000_000)
        )
        cluster.world.after(deaf) { [weak self] in self?.awaitWrite(chase) }
    }

    private func retry(_ work: @escaping (Chaos) -> Void) {
        cluster.world.after(Chaos.closeInterval) { [weak self] in
            if let self { work(self) }
        }
    }

    private func awaitWrite(_ chase: Ahead) {
        guard !isOver, chase.row.isThere, cluster.world.now < chase.end else { return }
        let active = chase.row.copies[0]
        guard let copy = chase.row.copy(on: chase.whole)?.progress(of: chase.row.fence),
            let write = active.outstanding.first(where: { $0 <= copy.covered })
        else { return retry { $0.awaitWrite(chase) } }
        // Its acknowledgement still arrives, since only the other direction is cut.
        last(
            2_000_000_000,
            [.oneWay(from: chase.active.address, to: chase.whole.address)],
            end: [.healNetwork]
        )
        var chase = chase
        chase.write = write
        awaitDecision(chase)
    }

    /// Reconnects the first replica once the write is decided and other changes precede the
    /// decision.
    private func awaitDecision(_ chase: Ahead) {
        guard !isOver, chase.row.isThere, cluster.world.now < chase.end else { return }
        let active = chase.row.copies[0]
        if let write = chase.write, active.outstanding.contains(write) {
            var chase = chase
            chase.high = active.withCore { $0.highSeqno }
            return retry { $0.awaitDecision(chase) }
        }
        let covered = chase.row.copy(on: chase.whole)?.progress(of: chase.row.fence)?.covered
        guard let covered, covered < chase.high else { return cluster.world.apply(.healNetwork) }
        let (here, there) = (chase.active.address, chase.node.address)
        cluster.world.apply(.clog(from: here, to: there, nanoseconds: 0))
        cluster.world.apply(.cutConnections(here, there))
        awaitAhead(chase)
    }

    /// Limits the first replica's memory to a few more bytes at a time until it is ahead, then to
    /// none.
    private func awaitAhead(_ chase: Ahead) {
        guard !isOver else { return }
        guard chase.row.isThere, cluster.world.now < chase.end else { return release() }
        let isFound = chase.row.isAhead(chase.node, of: chase.whole)
        squeeze(chase.node, leaving: isFound ? 0 : 1 + random.next() % 100)
        guard isFound else { return retry { $0.awaitAhead(chase) } }
        silence(
            chase.active,
            because: "\(chase.node.address) has a higher high seqno but covers less"
        )
        releaseOnceFailedOver(chase.active)
    }
}

extension Chaos.Row {
    fileprivate func isAhead(_ one: SimulatedNode, of other: SimulatedNode) -> Bool {
        guard let one = copy(on: one)?.progress(of: fence),
            let other = copy(on: other)?.progress(of: fence)
        else { return false }
        return one.covered < other.covered && one.high > other.high
    }
}

extension VBucket {
    /// Outstanding durable writes that wait for disks, so other changes precede their decision.
    fileprivate var outstanding: [Seqno] {
        withCore { $0.outstandingPrepares.filter { $0.level == .persistToMajority }.map(\.seqno) }
    }

    fileprivate func progress(of fence: UInt64) -> (covered: Seqno, high: Seqno)? {
        withCore { $0.follows(fence) ? ($0.coveredSeqno, $0.highSeqno) : nil }
    }
}
