internal import Bytes
internal import Engine
internal import SimulatedPlatform
internal import Vocabulary

/// Active copies that end when the copy that is further on covers less than the other one.
///
/// 1. One copy hears nothing; the other one receives a durable write, and nothing from then on.
/// 2. What that one acknowledged decides the write.
/// 3. The first copy hears all it missed as one snapshot, which has the write where it was decided:
///    behind what the other one covers, and before that its memory ends.
extension Chaos {
    private static let closeInterval: UInt64 = 50_000

    /// The active copy and two others, and a durable write that one of them has.
    private struct Ahead {
        let row: Row
        /// The one that is to be further on.
        let node: SimulatedNode
        /// The one that covers more.
        let whole: SimulatedNode
        let end: UInt64
        /// On its way when the other one heard the last.
        var write: Seqno?
        /// The active copy's newest change before that write was decided.
        var high = Seqno.zero

        var active: SimulatedNode { row.active }
    }

    func chaseAhead() {
        guard let row = rowToHurt() else { return }
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

    private func again(_ work: @escaping (Chaos) -> Void) {
        cluster.world.after(Chaos.closeInterval) { [weak self] in
            if let self { work(self) }
        }
    }

    private func awaitWrite(_ chase: Ahead) {
        guard !isOver, chase.row.isThere, cluster.world.now < chase.end else { return }
        let active = chase.row.copies[0]
        guard let copy = chase.row.copy(on: chase.whole)?.progress(of: chase.row.fence),
            let write = active.outstanding.first(where: { $0 <= copy.covered })
        else { return again { $0.awaitWrite(chase) } }
        // What it acknowledges arrives.
        last(
            2_000_000_000,
            [.oneWay(from: chase.active.address, to: chase.whole.address)],
            [.healNetwork]
        )
        var chase = chase
        chase.write = write
        awaitDecision(chase)
    }

    /// Lets the first copy hear once that write is decided, and something was written before that.
    private func awaitDecision(_ chase: Ahead) {
        guard !isOver, chase.row.isThere, cluster.world.now < chase.end else { return }
        let active = chase.row.copies[0]
        if let write = chase.write, active.outstanding.contains(write) {
            var chase = chase
            chase.high = active.withCore { $0.highSeqno }
            return again { $0.awaitDecision(chase) }
        }
        let covered = chase.row.copy(on: chase.whole)?.progress(of: chase.row.fence)?.covered
        guard let covered, covered < chase.high else { return cluster.world.apply(.healNetwork) }
        let (here, there) = (chase.active.address, chase.node.address)
        cluster.world.apply(.clog(from: here, to: there, nanoseconds: 0))
        cluster.world.apply(.cutConnections(here, there))
        awaitAhead(chase)
    }

    /// The one that is to be ahead has memory for little more at a time, until it is, and for nothing
    /// from then on.
    private func awaitAhead(_ chase: Ahead) {
        guard !isOver else { return }
        guard chase.row.isThere, cluster.world.now < chase.end else { return release() }
        let isFound = chase.row.isAhead(chase.node, of: chase.whole)
        squeeze(chase.node, leaving: isFound ? 0 : 1 + random.next() % 100)
        guard isFound else { return again { $0.awaitAhead(chase) } }
        silence(
            chase.active,
            because: "\(chase.node.address) is further on and covers less"
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
    /// Durable writes that wait for disks: others are made before they are decided.
    fileprivate var outstanding: [Seqno] {
        withCore { $0.outstandingPrepares.filter { $0.level == .persistToMajority }.map(\.seqno) }
    }

    fileprivate func progress(of fence: UInt64) -> (covered: Seqno, high: Seqno)? {
        withCore { $0.follows(fence) ? ($0.coveredSeqno, $0.highSeqno) : nil }
    }
}
