import Replication
import Testing
import Vocabulary
import Wire

/// What each level waits for, in which order writes end, and what ends them otherwise.
@Suite struct DurabilityMonitorTests {
    static let never = UInt64.max

    static func row(
        _ chain: [UInt16],
        copies: Int = 3,
        next: [UInt16] = [],
        nextCopies: Int? = nil,
        fence: UInt64 = 5
    ) -> DurabilityRow {
        DurabilityRow(
            own: NodeNumber(1),
            fence: fence,
            chain: chain.map { NodeNumber($0) },
            majority: copies / 2 + 1,
            nextChain: next.map { NodeNumber($0) },
            nextMajority: (nextCopies ?? copies) / 2 + 1
        )
    }

    static func said(
        _ covered: UInt64,
        disk: UInt64 = 0,
        fence: UInt64 = 5
    ) -> NodeAcknowledgement {
        NodeAcknowledgement(fence: fence, covered: Seqno(covered), onDisk: Seqno(disk))
    }

    static func monitor(
        _ row: DurabilityRow,
        _ level: DurabilityLevel = .majority,
        seqno: UInt64 = 10,
        deadline: UInt64 = 100
    ) -> DurabilityMonitor {
        var monitor = DurabilityMonitor()
        monitor.row = row
        monitor.enter(Seqno(seqno), level, deadline: deadline)
        return monitor
    }

    /// One write at seqno 10, and what is known of the copies.
    struct Case: CustomStringConvertible {
        let text: String
        let level: DurabilityLevel
        var row = DurabilityMonitorTests.row([1, 2, 3])
        var ownDisk: UInt64 = 0
        var copies: [UInt16: NodeAcknowledgement] = [:]
        let isCommitted: Bool

        var description: String { text }
    }

    static let levels: [Case] = [
        Case(text: "no other copy has it", level: .majority, isCommitted: false),
        Case(
            text: "one of two replicas has it",
            level: .majority,
            copies: [3: said(10)],
            isCommitted: true
        ),
        Case(
            text: "they are one short",
            level: .majority,
            ownDisk: 99,
            copies: [2: said(9, disk: 9), 3: said(9, disk: 9)],
            isCommitted: false
        ),
        Case(
            text: "told under the fence before",
            level: .majority,
            copies: [2: said(10, fence: 4)],
            isCommitted: false
        ),
        Case(
            text: "a node outside the chain has it",
            level: .majority,
            copies: [4: said(10)],
            isCommitted: false
        ),
        Case(
            text: "a copy alone is a majority of one",
            level: .majority,
            row: row([1], copies: 1),
            isCommitted: true
        ),
        Case(
            text: "of two copies both",
            level: .majority,
            row: row([1, 2], copies: 2),
            isCommitted: false
        ),
        Case(
            text: "a majority, and not on the active one's disk",
            level: .majorityAndPersistOnActive,
            ownDisk: 9,
            copies: [2: said(10, disk: 10), 3: said(10, disk: 10)],
            isCommitted: false
        ),
        Case(
            text: "a majority, and on the active one's disk",
            level: .majorityAndPersistOnActive,
            ownDisk: 10,
            copies: [2: said(10)],
            isCommitted: true
        ),
        Case(
            text: "on the active one's disk, and no majority",
            level: .majorityAndPersistOnActive,
            ownDisk: 10,
            isCommitted: false
        ),
        Case(
            text: "on the disk of one, in the memory of another",
            level: .persistToMajority,
            ownDisk: 10,
            copies: [2: said(10, disk: 9), 3: said(10)],
            isCommitted: false
        ),
        Case(
            text: "on two disks of three",
            level: .persistToMajority,
            ownDisk: 10,
            copies: [2: said(10, disk: 10)],
            isCommitted: true
        ),
        Case(
            text: "on two other disks, not on the active one's",
            level: .persistToMajority,
            ownDisk: 9,
            copies: [2: said(10, disk: 10), 3: said(10, disk: 10)],
            isCommitted: false
        ),
        Case(
            text: "a disk said to be ahead of what is whole",
            level: .persistToMajority,
            ownDisk: 10,
            copies: [2: said(9, disk: 10)],
            isCommitted: false
        ),
        Case(
            text: "a copy alone, on its disk",
            level: .persistToMajority,
            row: row([1], copies: 1),
            ownDisk: 10,
            isCommitted: true
        ),
    ]

    /// Row [1, 2, 3] on its way to [4, 5, 1]: both count.
    static let joint: [Case] = [
        Case(
            text: "the old chain alone",
            level: .majority,
            row: row([1, 2, 3], next: [4, 5, 6]),
            copies: [2: said(10), 3: said(10)],
            isCommitted: false
        ),
        Case(
            text: "the new chain alone",
            level: .majority,
            row: row([1, 2, 3], next: [4, 5, 6]),
            copies: [4: said(10), 5: said(10), 6: said(10)],
            isCommitted: false
        ),
        Case(
            text: "a majority of both",
            level: .majority,
            row: row([1, 2, 3], next: [4, 5, 6]),
            copies: [2: said(10), 5: said(10), 6: said(10)],
            isCommitted: true
        ),
        Case(
            text: "the active one counts in the new chain only where it stays",
            level: .majority,
            row: row([1, 2, 3], next: [4, 5, 6]),
            copies: [2: said(10), 4: said(10)],
            isCommitted: false
        ),
        Case(
            text: "the active one counts in both",
            level: .majority,
            row: row([1, 2, 3], next: [4, 5, 1]),
            copies: [2: said(10), 4: said(10)],
            isCommitted: true
        ),
        Case(
            text: "the successor has it in memory only",
            level: .majorityAndPersistOnActive,
            row: row([1, 2], copies: 2, next: [3, 2]),
            ownDisk: 10,
            copies: [2: said(10, disk: 10), 3: said(10, disk: 9)],
            isCommitted: false
        ),
        Case(
            text: "the successor has it on disk",
            level: .majorityAndPersistOnActive,
            row: row([1, 2], copies: 2, next: [3, 2]),
            ownDisk: 10,
            copies: [2: said(10), 3: said(10, disk: 10)],
            isCommitted: true
        ),
        Case(
            text: "a copy that stays active needs no other disk",
            level: .majorityAndPersistOnActive,
            row: row([1, 2], copies: 2, next: [1, 3]),
            ownDisk: 10,
            copies: [2: said(10), 3: said(10)],
            isCommitted: true
        ),
        Case(
            text: "a new chain that is short has to have it whole",
            level: .majority,
            row: row([1, 2, 3], next: [2], nextCopies: 3),
            copies: [2: said(10)],
            isCommitted: true
        ),
        Case(
            text: "a short new chain without it",
            level: .majority,
            row: row([1, 2, 3], next: [2], nextCopies: 3),
            copies: [3: said(10)],
            isCommitted: false
        ),
        Case(
            text: "disks of both chains",
            level: .persistToMajority,
            row: row([1, 2], copies: 2, next: [1, 3]),
            ownDisk: 10,
            copies: [2: said(10, disk: 10), 3: said(10)],
            isCommitted: false
        ),
        Case(
            text: "more copies to come, fewer needed now",
            level: .majority,
            row: row([1], copies: 1, next: [1, 2], nextCopies: 2),
            isCommitted: false
        ),
    ]

    @Test(arguments: levels + joint)
    func prepareIsCommittedOnlyIfItsLevelIsReached(_ example: Case) {
        var monitor = Self.monitor(example.row, example.level)
        monitor.onDisk = Seqno(example.ownDisk)
        for (node, word) in example.copies { monitor.copies[NodeNumber(node)] = word }
        #expect(monitor.next(now: 0) == (example.isCommitted ? .commit(Seqno(10)) : nil))
        // Its time being over does not undo what holds.
        let end = example.isCommitted ? DurabilityMonitor.Step.commit(Seqno(10)) : .abort(Seqno(10))
        #expect(monitor.next(now: 100) == end)
    }

    // MARK: Order

    @Test func satisfiedPrepareWaitsForEarlierPrepares() {
        var monitor = Self.monitor(Self.row([1, 2, 3]), .persistToMajority, seqno: 10)
        monitor.enter(Seqno(11), .majority, deadline: Self.never)
        monitor.copies[NodeNumber(2)] = Self.said(11)
        #expect(monitor.next(now: 0) == nil)
        monitor.onDisk = Seqno(10)
        monitor.copies[NodeNumber(2)] = Self.said(11, disk: 10)
        #expect(monitor.next(now: 0) == .commit(Seqno(10)))
        monitor.complete(Seqno(10))
        #expect(monitor.next(now: 0) == .commit(Seqno(11)))
        monitor.complete(Seqno(11))
        #expect(monitor.next(now: 0) == nil && monitor.isEmpty)
    }

    /// Two reactors may come in either order.
    @Test func preparesCompleteInSeqnoOrder() {
        var monitor = Self.monitor(Self.row([1], copies: 1), seqno: 12)
        monitor.enter(Seqno(11), .majority, deadline: Self.never)
        monitor.inherit(Seqno(3), .majority)
        #expect(monitor.seqnos == [Seqno(3), Seqno(11), Seqno(12)])
        #expect(monitor.next(now: 0) == .commit(Seqno(3)))
    }

    // MARK: Deadlines

    @Test func latePrepareIsAnsweredAtDeadlineAndAbortedInOrder() {
        var monitor = Self.monitor(Self.row([1, 2, 3]), seqno: 10, deadline: 100)
        monitor.enter(Seqno(11), .majority, deadline: 50)
        monitor.enter(Seqno(12), .majority, deadline: 200)
        #expect(monitor.nextDeadline == 50)
        #expect(monitor.next(now: 49) == nil)
        #expect(monitor.next(now: 50) == .answerAmbiguous(Seqno(11)))
        monitor.answered(Seqno(11))
        #expect(monitor.next(now: 50) == nil)
        #expect(monitor.nextDeadline == 100)
        #expect(monitor.next(now: 100) == .abort(Seqno(10)))
        monitor.complete(Seqno(10))
        // Its time was over before.
        #expect(monitor.next(now: 100) == .abort(Seqno(11)))
        monitor.complete(Seqno(11))
        #expect(monitor.next(now: 100) == nil)
        monitor.copies[NodeNumber(3)] = Self.said(12)
        #expect(monitor.next(now: 300) == .commit(Seqno(12)))
    }

    @Test func answeredPrepareIsCommittedInOrderIfSatisfied() {
        var monitor = Self.monitor(
            Self.row([1, 2, 3]),
            .persistToMajority,
            seqno: 10,
            deadline: 100
        )
        monitor.enter(Seqno(11), .majority, deadline: 50)
        monitor.copies[NodeNumber(2)] = Self.said(11)
        #expect(monitor.next(now: 60) == .answerAmbiguous(Seqno(11)))
        monitor.answered(Seqno(11))
        #expect(monitor.next(now: 100) == .abort(Seqno(10)))
        monitor.complete(Seqno(10))
        #expect(monitor.next(now: 100) == .commit(Seqno(11)))
    }

    /// The disk may keep the first one from being committed, though it holds: its time ends all the
    /// same, and so does that of any prepare behind it.
    @Test func latePrepareIsFoundBehindAnyEarlierPrepare() {
        var monitor = Self.monitor(Self.row([1, 2, 3]), seqno: 10, deadline: 100)
        monitor.enter(Seqno(11), .majority, deadline: 50)
        monitor.copies[NodeNumber(2)] = Self.said(10)
        #expect(monitor.next(now: 60) == .commit(Seqno(10)))
        #expect(monitor.nextLate(now: 49) == nil)
        #expect(monitor.nextLate(now: 60) == Seqno(11))
        monitor.answered(Seqno(11))
        #expect(monitor.nextLate(now: 60) == nil)
        #expect(monitor.nextLate(now: 100) == Seqno(10))
        monitor.answered(Seqno(10))
        #expect(monitor.nextLate(now: 1_000) == nil && monitor.nextDeadline == nil)
        #expect(monitor.next(now: 1_000) == .commit(Seqno(10)))
    }

    @Test func expiredDeadlinesDoNotAbortInheritedPrepares() {
        var monitor = Self.monitor(Self.row([1, 2, 3]), seqno: 10, deadline: Self.never)
        monitor.inherit(Seqno(9), .majority)
        monitor.expireDeadlines()
        #expect(monitor.next(now: 0) == .answerAmbiguous(Seqno(10)))
        monitor.answered(Seqno(10))
        #expect(monitor.next(now: 0) == nil)
        monitor.copies[NodeNumber(2)] = Self.said(9)
        #expect(monitor.next(now: 0) == .commit(Seqno(9)))
        monitor.complete(Seqno(9))
        #expect(monitor.next(now: 0) == .abort(Seqno(10)))
    }

    // MARK: Copies that come and go

    @Test func acknowledgementsOfLostConnectionAreIgnored() {
        var monitor = Self.monitor(Self.row([1, 2, 3]), seqno: 10)
        monitor.enter(Seqno(11), .majority, deadline: Self.never)
        monitor.copies[NodeNumber(2)] = Self.said(11)
        #expect(monitor.next(now: 0) == .commit(Seqno(10)))
        monitor.complete(Seqno(10))
        monitor.copies[NodeNumber(2)] = nil
        #expect(monitor.next(now: 0) == nil)
        // It is back, and has less than it had said.
        monitor.copies[NodeNumber(2)] = Self.said(10)
        #expect(monitor.next(now: 0) == nil)
        monitor.copies[NodeNumber(2)] = Self.said(11)
        #expect(monitor.next(now: 0) == .commit(Seqno(11)))
    }

    @Test func chainBelowMajorityAbortsOwnPrepares() {
        var monitor = Self.monitor(Self.row([1, 2], copies: 2), deadline: Self.never)
        monitor.copies[NodeNumber(2)] = Self.said(9)
        #expect(monitor.next(now: 0) == nil)
        monitor.row = Self.row([1], copies: 2, fence: 6)
        #expect(monitor.next(now: 0) == .abort(Seqno(10)))
    }

    @Test func shortChainWithMajorityCommits() {
        var monitor = Self.monitor(Self.row([1, 2, 3]), deadline: Self.never)
        monitor.row = Self.row([1, 3], fence: 6)
        monitor.copies[NodeNumber(3)] = Self.said(10)
        #expect(monitor.next(now: 0) == nil)
        monitor.copies[NodeNumber(3)] = Self.said(10, fence: 6)
        #expect(monitor.next(now: 0) == .commit(Seqno(10)))
    }

    // MARK: Inherited

    @Test func inheritedPrepareWaitsForAvailableCopiesWithoutDeadline() {
        var monitor = DurabilityMonitor()
        monitor.inherit(Seqno(10), .majority)
        monitor.row = Self.row([1, 2], copies: 3)
        #expect(monitor.nextDeadline == nil)
        #expect(monitor.next(now: .max) == nil)
        monitor.copies[NodeNumber(2)] = Self.said(10)
        #expect(monitor.next(now: 0) == .commit(Seqno(10)))
        monitor.copies = [:]
        // No other copy is left.
        monitor.row = Self.row([1], copies: 3)
        #expect(monitor.next(now: 0) == .commit(Seqno(10)))
    }

    @Test func inheritedPrepareIsCommittedAtItsLevel() {
        var monitor = DurabilityMonitor()
        monitor.inherit(Seqno(10), .persistToMajority)
        monitor.row = Self.row([1], copies: 3)
        #expect(monitor.next(now: 0) == nil)
        monitor.onDisk = Seqno(10)
        #expect(monitor.next(now: 0) == .commit(Seqno(10)))
    }

    @Test func prepareVoidedByPromotionIsAbortedAtOnce() {
        var monitor = DurabilityMonitor()
        monitor.row = Self.row([1, 2, 3])
        monitor.inherit(Seqno(10), .majority)
        monitor.inherit(Seqno(12), .majority)
        monitor.inherit(Seqno(14), .majority)
        monitor.void(Seqno(12))
        monitor.void(Seqno(14))
        monitor.void(Seqno(99))
        #expect(monitor.next(now: 0) == .abort(Seqno(12)))
        monitor.complete(Seqno(12))
        #expect(monitor.next(now: 0) == .abort(Seqno(14)))
        monitor.complete(Seqno(14))
        #expect(monitor.next(now: 0) == nil)
        #expect(monitor.seqnos == [Seqno(10)])
    }

    // MARK: The deciding node

    @Test func preparesAreReleasedWithoutRow() {
        var monitor = Self.monitor(Self.row([1, 2, 3]))
        monitor.inherit(Seqno(11), .majority)
        monitor.copies[NodeNumber(2)] = Self.said(11)
        monitor.row = nil
        #expect(monitor.next(now: 0) == .release(Seqno(10)))
        monitor.complete(Seqno(10))
        #expect(monitor.next(now: 0) == .release(Seqno(11)))
        monitor.complete(Seqno(11))
        #expect(monitor.isEmpty)
    }

    @Test func durabilityRowExistsForActiveCopyOnly() {
        var entry = VBucketAssignment(
            fence: 7,
            stage: 7,
            chain: [NodeNumber(1), NodeNumber(2)],
            nextChain: [NodeNumber(3), NodeNumber(2), NodeNumber(4)],
            copies: 2,
            nextCopies: 3
        )
        let row = DurabilityRow(entry, own: NodeNumber(1))
        #expect(row?.majority == 2 && row?.nextMajority == 2 && row?.fence == 7)
        #expect(row?.isPossible == true)
        #expect(DurabilityRow(entry, own: NodeNumber(2)) == nil)
        entry.isConfirmed = false
        #expect(DurabilityRow(entry, own: NodeNumber(1)) == nil)
        entry.isConfirmed = true
        entry.chain = [NodeNumber(1)]
        #expect(DurabilityRow(entry, own: NodeNumber(1))?.isPossible == false)
    }
}
