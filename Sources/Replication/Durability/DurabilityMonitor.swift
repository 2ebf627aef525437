package import Vocabulary
package import Wire

/// Decides, on the active copy, which durable writes of one vBucket are committed or aborted.
///
/// The inputs are prepares, maps and the acknowledgements of copies. `next` returns the next step;
/// the caller reports the step as done by `complete`. The monitor has no clock: the time is an
/// argument.
///
/// - Prepares are completed in the order of their seqnos; only prepares that a promotion voided are
///   aborted out of order, since they belong to no history.
/// - A prepare is committed only if each counted chain has acknowledged what its level requires,
///   under the fence of the row.
/// - A prepare of this node is aborted at its deadline. An inherited prepare is committed, however
///   long that takes, because a client may have seen it already.
package struct DurabilityMonitor: Sendable {
    /// The next step for the caller.
    package enum Step: Hashable, Sendable {
        case commit(Seqno)
        case abort(Seqno)
        /// The deadline has passed while earlier prepares wait: answer the client now, complete the
        /// prepare in order.
        case answerAmbiguous(Seqno)
        /// This node is not the vBucket's active node: answer the client, and leave the prepare as
        /// it is.
        case release(Seqno)
    }

    private struct Entry: Sendable {
        let seqno: Seqno
        let level: DurabilityLevel
        /// Nil if the prepare is inherited or its client was answered.
        var deadline: UInt64?
        let isInherited: Bool
        var isVoid = false

        func isLate(_ now: UInt64) -> Bool { deadline.map { $0 <= now } ?? false }
    }

    /// The chain and majority of the map; nil while this node is not the active node.
    package var row: DurabilityRow?
    /// Everything through here is on the active copy's disk.
    package var onDisk = Seqno.zero
    /// Acknowledgements of other copies since they connected; ignored under another fence.
    package var copies: [NodeNumber: NodeAcknowledgement] = [:]
    /// The prepares in the order of their seqnos.
    private var entries: [Entry] = []
    private var voidCount = 0
    /// A lower bound of all deadlines.
    private var deadlineBound = UInt64.max

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }

    package var seqnos: [Seqno] { entries.map(\.seqno) }

    /// When to call `next` again; nil without a deadline.
    package var nextDeadline: UInt64? { entries.compactMap(\.deadline).min() }

    package func contains(_ seqno: Seqno) -> Bool { index(of: seqno) != nil }

    // MARK: Entering

    /// Adds a prepare that this node made.
    package mutating func enter(_ seqno: Seqno, _ level: DurabilityLevel, deadline: UInt64) {
        insert(Entry(seqno: seqno, level: level, deadline: deadline, isInherited: false))
        deadlineBound = min(deadlineBound, deadline)
    }

    /// Adds a prepare of another node, or from before a restart: it may have been committed and
    /// seen by a client.
    package mutating func inherit(_ seqno: Seqno, _ level: DurabilityLevel) {
        insert(Entry(seqno: seqno, level: level, deadline: nil, isInherited: true))
    }

    private mutating func insert(_ entry: Entry) {
        var index = entries.endIndex
        while index > 0, entries[index - 1].seqno > entry.seqno { index -= 1 }
        precondition(
            index == 0 || entries[index - 1].seqno < entry.seqno,
            "a prepare is entered once"
        )
        entries.insert(entry, at: index)
    }

    /// Marks a prepare behind the start of a new history: it cannot have been seen by a client.
    package mutating func void(_ seqno: Seqno) {
        guard let index = index(of: seqno), !entries[index].isVoid else { return }
        entries[index].isVoid = true
        voidCount += 1
    }

    /// Expires the deadlines of this node's prepares.
    package mutating func expireDeadlines() {
        for index in entries.indices where entries[index].deadline != nil {
            entries[index].deadline = 0
        }
        deadlineBound = 0
    }

    /// Removes a prepare that was committed, aborted or released.
    package mutating func complete(_ seqno: Seqno) {
        guard let index = index(of: seqno) else { return }
        if entries[index].isVoid { voidCount -= 1 }
        entries.remove(at: index)
    }

    /// Records that a prepare's client was answered; the prepare is still completed in order.
    package mutating func answered(_ seqno: Seqno) {
        if let index = index(of: seqno) { entries[index].deadline = nil }
    }

    private func index(of seqno: Seqno) -> Int? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].seqno < seqno { low = middle + 1 } else { high = middle }
        }
        return low < entries.count && entries[low].seqno == seqno ? low : nil
    }

    // MARK: Deciding

    /// The next step at `now`; nil if every prepare has to wait.
    package mutating func next(now: UInt64) -> Step? {
        guard let head = entries.first else {
            deadlineBound = .max
            return nil
        }
        guard let row else { return .release(head.seqno) }
        if voidCount > 0, let void = entries.first(where: \.isVoid) { return .abort(void.seqno) }
        if holds(head, row) { return .commit(head.seqno) }
        if !head.isInherited, head.deadline.map({ $0 <= now }) ?? true || !row.isPossible {
            return .abort(head.seqno)
        }
        return nextLate(now: now).map(Step.answerAmbiguous)
    }

    /// The first write past its deadline, even if an earlier prepare is not completed.
    package mutating func nextLate(now: UInt64) -> Seqno? {
        guard deadlineBound <= now else { return nil }
        if let late = entries.first(where: { $0.isLate(now) }) { return late.seqno }
        deadlineBound = nextDeadline ?? .max
        return nil
    }

    /// Whether enough copies have acknowledged the prepare.
    private func holds(_ entry: Entry, _ row: DurabilityRow) -> Bool {
        guard entry.isInherited || row.isPossible else { return false }
        if entry.level != .majority, onDisk < entry.seqno { return false }
        let needed = entry.isInherited ? min(row.majority, row.chain.count) : row.majority
        guard holders(entry, row.chain, in: row) >= needed else { return false }
        guard let successor = row.nextChain.first else { return true }
        if entry.level == .majorityAndPersistOnActive, successor != row.own {
            guard has(entry, successor, in: row, needsDisk: true) else { return false }
        }
        return holders(entry, row.nextChain, in: row) >= min(row.nextMajority, row.nextChain.count)
    }

    private func holders(_ entry: Entry, _ chain: [NodeNumber], in row: DurabilityRow) -> Int {
        let needsDisk = entry.level == .persistToMajority
        return chain.count { $0 == row.own || has(entry, $0, in: row, needsDisk: needsDisk) }
    }

    private func has(
        _ entry: Entry,
        _ node: NodeNumber,
        in row: DurabilityRow,
        needsDisk: Bool
    ) -> Bool {
        guard let copy = copies[node], copy.fence == row.fence, copy.covered >= entry.seqno
        else { return false }
        return !needsDisk || copy.onDisk >= entry.seqno
    }
}

/// The chains and majorities that durable writes of a vBucket require, on its active node.
package struct DurabilityRow: Hashable, Sendable {
    package let own: NodeNumber
    package let fence: UInt64
    package let chain: [NodeNumber]
    package let majority: Int
    /// The target chain during a move's joint phase, when both chains count; else empty.
    package let nextChain: [NodeNumber]
    package let nextMajority: Int

    package init(
        own: NodeNumber,
        fence: UInt64,
        chain: [NodeNumber],
        majority: Int,
        nextChain: [NodeNumber] = [],
        nextMajority: Int = 1
    ) {
        precondition(chain.first == own, "only the active node decides about durable writes")
        self.own = own
        self.fence = fence
        self.chain = chain
        self.majority = majority
        self.nextChain = nextChain
        self.nextMajority = nextMajority
    }

    /// Nil if `own` is not the vBucket's active node in the map.
    package init?(_ assignment: VBucketAssignment, own: NodeNumber) {
        guard assignment.role(of: own) == .active else { return nil }
        self.init(
            own: own,
            fence: assignment.fence,
            chain: assignment.chain,
            majority: assignment.majority,
            nextChain: assignment.nextChain,
            nextMajority: assignment.nextMajority
        )
    }

    /// The row of a vBucket without a map, which has no other copy.
    package static func alone(fence: UInt64) -> DurabilityRow {
        let own = NodeNumber(1)
        return DurabilityRow(own: own, fence: fence, chain: [own], majority: 1)
    }

    /// Whether the chain has enough copies for new durable writes.
    ///
    /// The next chain may be shorter than its majority: then all of its copies need the write.
    package var isPossible: Bool { chain.count >= majority }
}
