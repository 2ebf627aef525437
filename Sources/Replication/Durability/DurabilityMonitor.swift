package import Vocabulary
package import Wire

/// Decides, on the active copy, which durable writes of one vBucket are committed or aborted.
///
/// Its inputs are prepares, maps and the acknowledgements of copies; `next` returns the next step,
/// and its caller reports the step as done by `complete`. It has no clock: the time is an argument.
///
/// - Prepares are completed in the order of their seqnos; only what a promotion voided is aborted
///   out of turn, since it belongs to no history.
/// - A prepare is committed only if each counted chain has acknowledged what its level requires,
///   under the fence of the row.
/// - A prepare of this node is aborted at its deadline. An inherited prepare is committed, however
///   long that takes, because a client may have seen it already.
package struct DurabilityMonitor: Sendable {
    /// What is to be done next.
    package enum Step: Hashable, Sendable {
        case commit(Seqno)
        case abort(Seqno)
        /// Its deadline has passed behind earlier prepares: answer now, complete it in order.
        case answerAmbiguous(Seqno)
        /// This node does not decide about it: answer, and leave the prepare as it is.
        case release(Seqno)
    }

    private struct Entry: Sendable {
        let seqno: Seqno
        let level: DurabilityLevel
        /// Of what was prepared here and is not answered; inherited ones have none.
        var deadline: UInt64?
        let isInherited: Bool
        var isVoid = false

        func isLate(_ now: UInt64) -> Bool { deadline.map { $0 <= now } ?? false }
    }

    /// Nil while this node is not to decide.
    package var row: DurabilityRow?
    /// Everything through here is on the active copy's disk.
    package var onDisk = Seqno.zero
    /// Acknowledgements of other copies since they connected; ignored under another fence.
    package var copies: [NodeNumber: NodeAcknowledgement] = [:]
    /// In the order of seqnos.
    private var entries: [Entry] = []
    private var voidCount = 0
    /// Not after the first deadline of all.
    private var deadlineBound = UInt64.max

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }

    package var seqnos: [Seqno] { entries.map(\.seqno) }

    /// When to call `next` again; nil without a deadline.
    package var nextDeadline: UInt64? { entries.compactMap(\.deadline).min() }

    package func contains(_ seqno: Seqno) -> Bool { place(of: seqno) != nil }

    // MARK: Entering

    /// A write was prepared here.
    package mutating func enter(_ seqno: Seqno, _ level: DurabilityLevel, deadline: UInt64) {
        insert(Entry(seqno: seqno, level: level, deadline: deadline, isInherited: false))
        deadlineBound = min(deadlineBound, deadline)
    }

    /// Enters a prepare of another node, or from before a restart: it may have been committed and
    /// seen.
    package mutating func inherit(_ seqno: Seqno, _ level: DurabilityLevel) {
        insert(Entry(seqno: seqno, level: level, deadline: nil, isInherited: true))
    }

    private mutating func insert(_ entry: Entry) {
        var place = entries.endIndex
        while place > 0, entries[place - 1].seqno > entry.seqno { place -= 1 }
        precondition(
            place == 0 || entries[place - 1].seqno < entry.seqno,
            "a prepare is entered once"
        )
        entries.insert(entry, at: place)
    }

    /// Marks a prepare behind the start of a new history: it cannot have been seen by a client.
    package mutating func void(_ seqno: Seqno) {
        guard let place = place(of: seqno), !entries[place].isVoid else { return }
        entries[place].isVoid = true
        voidCount += 1
    }

    /// Expires the deadlines of this node's prepares.
    package mutating func expireDeadlines() {
        for place in entries.indices where entries[place].deadline != nil {
            entries[place].deadline = 0
        }
        deadlineBound = 0
    }

    /// A step was carried out: committed, aborted or released.
    package mutating func complete(_ seqno: Seqno) {
        guard let place = place(of: seqno) else { return }
        if entries[place].isVoid { voidCount -= 1 }
        entries.remove(at: place)
    }

    /// It was answered, and stays until its turn comes.
    package mutating func answered(_ seqno: Seqno) {
        if let place = place(of: seqno) { entries[place].deadline = nil }
    }

    private func place(of seqno: Seqno) -> Int? {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].seqno < seqno { low = middle + 1 } else { high = middle }
        }
        return low < entries.count && entries[low].seqno == seqno ? low : nil
    }

    // MARK: Deciding

    /// What is to be done now; nil where everything waits.
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
        guard holders(entry, row.chain, row) >= needed else { return false }
        guard let successor = row.nextChain.first else { return true }
        if entry.level == .majorityAndPersistOnActive, successor != row.own {
            guard has(entry, successor, row, needsDisk: true) else { return false }
        }
        return holders(entry, row.nextChain, row) >= min(row.nextMajority, row.nextChain.count)
    }

    private func holders(_ entry: Entry, _ chain: [NodeNumber], _ row: DurabilityRow) -> Int {
        let needsDisk = entry.level == .persistToMajority
        return chain.count { $0 == row.own || has(entry, $0, row, needsDisk: needsDisk) }
    }

    private func has(
        _ entry: Entry,
        _ node: NodeNumber,
        _ row: DurabilityRow,
        needsDisk: Bool
    ) -> Bool {
        guard let copy = copies[node], copy.fence == row.fence, copy.covered >= entry.seqno
        else { return false }
        return !needsDisk || copy.onDisk >= entry.seqno
    }
}

/// What the map asks of the durable writes of a vBucket, while this node is the active one.
package struct DurabilityRow: Hashable, Sendable {
    package let own: NodeNumber
    package let fence: UInt64
    package let chain: [NodeNumber]
    package let majority: Int
    /// Counts beside `chain`, while both do.
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
        precondition(chain.first == own, "the active one decides")
        self.own = own
        self.fence = fence
        self.chain = chain
        self.majority = majority
        self.nextChain = nextChain
        self.nextMajority = nextMajority
    }

    /// Nil where the map has another node decide, or none.
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

    /// Without a map, where there is no other copy.
    package static func alone(fence: UInt64) -> DurabilityRow {
        let own = NodeNumber(1)
        return DurabilityRow(own: own, fence: fence, chain: [own], majority: 1)
    }

    /// There are enough copies for what is written now.
    ///
    /// The second chain may be short: then all of it have to have the write.
    package var isPossible: Bool { chain.count >= majority }
}
