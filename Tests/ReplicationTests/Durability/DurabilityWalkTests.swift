import Replication
import Testing
import Vocabulary
import Wire

/// Prepares, words of copies, maps and time in random order, against the promise as it is written.
@Suite struct DurabilityWalkTests {
    /// A write as the walk knows it.
    private struct Write {
        let level: DurabilityLevel
        let deadline: UInt64?
        var isVoid = false
        var isAnswered = false
    }

    private struct Walk {
        var dice: Dice
        var monitor = DurabilityMonitor()
        var writes: [UInt64: Write] = [:]
        var lastSeqno: UInt64 = 0
        var fence: UInt64 = 1
        var now: UInt64 = 1_000
        var disk: UInt64 = 0
        var words: [UInt16: NodeAcknowledgement] = [:]
        var (commits, aborts, releases, answers) = (0, 0, 0, 0)

        init(seed: UInt64) { dice = Dice(seed: seed) }

        mutating func run(_ steps: Int) {
            for _ in 0..<steps {
                act()
                while let step = monitor.next(now: now) { check(step) }
                #expect(monitor.seqnos.map(\.value) == writes.keys.sorted())
            }
        }

        private mutating func act() {
            switch dice.below(12) {
            case 0, 1, 2, 3:
                lastSeqno += UInt64(1 + dice.below(3))
                let level = DurabilityLevel(rawValue: UInt8(1 + dice.below(3))) ?? .majority
                if dice.below(8) == 0 {
                    monitor.inherit(Seqno(lastSeqno), level)
                    writes[lastSeqno] = Write(level: level, deadline: nil)
                } else {
                    let deadline = now + UInt64(dice.below(200))
                    monitor.enter(Seqno(lastSeqno), level, deadline: deadline)
                    writes[lastSeqno] = Write(level: level, deadline: deadline)
                }
            case 4, 5, 6, 7: hear(UInt16(2 + dice.below(4)))
            case 8:
                disk = max(disk, dice.below(2) == 0 ? lastSeqno : disk + 2)
                monitor.onDisk = Seqno(disk)
            case 9: now += UInt64(dice.below(60))
            case 10:
                let node = UInt16(2 + dice.below(4))
                words[node] = nil
                monitor.copies[NodeNumber(node)] = nil
            default: change()
            }
        }

        private mutating func hear(_ node: UInt16) {
            let before = words[node]?.covered.value ?? 0
            let covered = min(lastSeqno, before + UInt64(dice.below(6)))
            let said = NodeAcknowledgement(
                fence: dice.below(9) == 0 ? fence - 1 : fence,
                covered: Seqno(covered),
                onDisk: Seqno(covered - min(covered, UInt64(dice.below(3))))
            )
            words[node] = said
            monitor.copies[NodeNumber(node)] = said
        }

        private mutating func change() {
            switch dice.below(6) {
            case 0: monitor.row = nil
            case 1:
                if let seqno = writes.filter({ $0.value.deadline == nil }).keys.max() {
                    writes[seqno]?.isVoid = true
                    monitor.void(Seqno(seqno))
                }
            default:
                if dice.below(2) == 0 { fence += 1 }
                let copies = 1 + dice.below(3)
                let chain = [1] + others(upTo: copies - 1)
                let nextCopies = 1 + dice.below(3)
                let first: [UInt16] = dice.below(2) == 0 ? [1] : []
                let next = dice.below(2) == 0 ? [] : first + others(upTo: nextCopies - first.count)
                monitor.row = DurabilityRow(
                    own: NodeNumber(1),
                    fence: fence,
                    chain: chain.map { NodeNumber($0) },
                    majority: copies / 2 + 1,
                    nextChain: next.map { NodeNumber($0) },
                    nextMajority: nextCopies / 2 + 1
                )
            }
        }

        private mutating func others(upTo count: Int) -> [UInt16] {
            var all: [UInt16] = [2, 3, 4, 5]
            return (0..<dice.below(count + 1)).map { _ in all.remove(at: dice.below(all.count)) }
        }

        private mutating func check(_ step: DurabilityMonitor.Step) {
            switch step {
            case .commit(let seqno):
                guard let write = writes[seqno.value], let row = monitor.row else {
                    Issue.record("commits what is not there: \(seqno)")
                    return monitor.complete(seqno)
                }
                #expect(!write.isVoid)
                #expect(writes.keys.min() == seqno.value)
                #expect(
                    isKept(write, seqno.value, row),
                    "\(seqno) \(write) \(row) \(words) \(disk)"
                )
                commits += 1
                remove(seqno)
            case .abort(let seqno):
                guard let write = writes[seqno.value] else {
                    Issue.record("aborts what is not there: \(seqno)")
                    return monitor.complete(seqno)
                }
                let isLate = write.deadline.map { $0 <= now || monitor.row?.isPossible == false }
                #expect(write.isVoid || isLate == true)
                #expect(write.isVoid || writes.keys.min() == seqno.value)
                aborts += 1
                remove(seqno)
            case .answerAmbiguous(let seqno):
                let write = writes[seqno.value]
                #expect(write?.isAnswered == false)
                #expect((write?.deadline ?? .max) <= now)
                writes[seqno.value]?.isAnswered = true
                answers += 1
                monitor.answered(seqno)
            case .release(let seqno):
                #expect(monitor.row == nil)
                releases += 1
                remove(seqno)
            }
        }

        private mutating func remove(_ seqno: Seqno) {
            writes[seqno.value] = nil
            monitor.complete(seqno)
        }

        /// The promise, in other words than the monitor's: each chain names enough nodes that have
        /// it.
        private func isKept(_ write: Write, _ seqno: UInt64, _ row: DurabilityRow) -> Bool {
            func memory(_ node: NodeNumber) -> Bool {
                guard node != row.own else { return true }
                guard let word = words[node.value], word.fence == row.fence else { return false }
                return word.covered.value >= seqno
            }
            func onDisk(_ node: NodeNumber) -> Bool {
                if node == row.own { return disk >= seqno }
                return memory(node) && (words[node.value]?.onDisk.value ?? 0) >= seqno
            }
            let isInherited = write.deadline == nil
            var first = Set(row.chain.filter(memory))
            var second = Set(row.nextChain.filter(memory))
            switch write.level {
            case .majority: break
            case .majorityAndPersistOnActive:
                guard onDisk(row.own), row.nextChain.first.map(onDisk) ?? true else { return false }
            case .persistToMajority:
                guard onDisk(row.own) else { return false }
                first = first.filter(onDisk)
                second = second.filter(onDisk)
            }
            let needed = isInherited ? min(row.majority, row.chain.count) : row.majority
            return first.count >= needed
                && second.count >= min(row.nextMajority, row.nextChain.count)
        }
    }

    @Test(arguments: 1...40 as ClosedRange<UInt64>)
    func commitRequiresItsLevelsAcknowledgements(seed: UInt64) {
        var walk = Walk(seed: seed)
        walk.run(2_000)
        #expect(walk.commits > 20 && walk.aborts > 20 && walk.releases > 20)
        #expect(walk.answers > 0)
    }
}

/// Numbers that a seed decides.
private struct Dice {
    private var state: UInt64

    init(seed: UInt64) { state = seed &* 0x9e37_79b9_7f4a_7c15 }

    mutating func below(_ bound: Int) -> Int {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ word >> 30) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ word >> 27) &* 0x94d0_49bb_1331_11eb
        return Int((word ^ word >> 31) % UInt64(bound))
    }
}
