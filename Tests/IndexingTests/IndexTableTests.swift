import Bytes
import Indexing
import Testing
import Vocabulary

/// Which vBuckets an index follows, as scripts and as a walk.
@Suite struct IndexTableTests {
    private let one = VBucketID(1)
    private let uuid = VBucketUUID(77)

    private func position(_ seqno: UInt64) -> IndexPosition {
        IndexPosition(
            uuid: uuid,
            seqno: Seqno(seqno),
            snapshotStart: Seqno(seqno),
            snapshotEnd: Seqno(seqno)
        )
    }

    @Test func arrivedVBucketIsCountedOnceItHasTheSeqnoOfItsOpening() {
        var table = IndexTable()
        let actions1 = table.serve([one])
        #expect(actions1 == [.open(one, .zero)])
        let actions2 = table.opened(one, .opened(high: Seqno(10), uuid: uuid))
        #expect(actions2 == [])
        #expect(table.missing == [one])
        table.committed(one, position(9))
        #expect(table.home(of: one) == .filling)
        #expect(!table.has(one, through: Seqno(5)))
        #expect(table.homeAfterCommit(of: one, at: position(10)) == .main)
        table.committed(one, position(10))
        #expect(table.home(of: one) == .main)
        #expect(table.has(one, through: Seqno(10)) && !table.has(one, through: Seqno(11)))
        #expect(table.isReady)
    }

    /// Inside a snapshot a document can be missing whose old version a later change replaced.
    @Test func vBucketInsideASnapshotIsNotCounted() {
        var table = IndexTable()
        _ = table.serve([one])
        _ = table.opened(one, .opened(high: Seqno(10), uuid: uuid))
        var inside = position(12)
        (inside.snapshotStart, inside.snapshotEnd) = (.zero, Seqno(20))
        table.committed(one, inside)
        #expect(table.home(of: one) == .filling)
        table.committed(one, position(20))
        #expect(table.has(one, through: Seqno(20)))
        (inside.snapshotStart, inside.snapshotEnd, inside.seqno) = (Seqno(20), Seqno(30), Seqno(25))
        table.committed(one, inside)
        #expect(table.has(one, through: Seqno(20)) && !table.has(one, through: Seqno(21)))
    }

    @Test func emptyVBucketIsCompletedWithoutAChange() {
        var table = IndexTable()
        _ = table.serve([one])
        let actions3 = table.opened(one, .opened(high: .zero, uuid: uuid))
        #expect(actions3 == [.complete(one)])
        #expect(table.home(of: one) == .filling)
        table.committed(one, position(0))
        #expect(table.home(of: one) == .main)
    }

    @Test func restartedIndexContinuesFromItsPositions() {
        var table = IndexTable(stored: [one: (.main, position(10))])
        let actions4 = table.serve([one])
        #expect(actions4 == [.open(one, position(10))])
        let actions5 = table.opened(one, .opened(high: Seqno(12), uuid: uuid))
        #expect(actions5 == [])
        // What was counted before the restart is counted after it.
        #expect(table.missing == [])
    }

    @Test func restartedIndexContinuesARemoval() {
        var table = IndexTable(stored: [one: (.leaving, position(10))])
        let actions6 = table.serve([one])
        #expect(actions6 == [.remove(one)])
        let actions7 = table.serve([one])
        #expect(actions7 == [])
        let actions8 = table.removed(one)
        #expect(actions8 == [.open(one, .zero)])
    }

    @Test func departedVBucketIsRemovedAndForgotten() {
        var table = IndexTable(stored: [one: (.main, position(10))])
        _ = table.serve([one])
        _ = table.opened(one, .opened(high: Seqno(10), uuid: uuid))
        let actions9 = table.serve([])
        #expect(actions9 == [.close(one), .remove(one)])
        #expect(table.home(of: one) == .leaving)
        table.committed(one, position(11))
        #expect(table.home(of: one) == .leaving)
        let actions10 = table.removed(one)
        #expect(actions10 == [])
        #expect(table.home(of: one) == .none && table.position(of: one) == .zero)
    }

    @Test func vBucketThatReturnsDuringItsRemovalIsFilledAfterwards() {
        var table = IndexTable(stored: [one: (.main, position(10))])
        _ = table.serve([one])
        _ = table.opened(one, .opened(high: Seqno(10), uuid: uuid))
        _ = table.serve([])
        let actions11 = table.serve([one])
        #expect(actions11 == [])
        #expect(table.missing == [one])
        let actions12 = table.removed(one)
        #expect(actions12 == [.open(one, .zero)])
    }

    @Test func positionThatTheCopyLacksIsReplaced() {
        var table = IndexTable(stored: [one: (.main, position(10))])
        _ = table.serve([one])
        let actions13 = table.opened(one, .rollBack)
        #expect(actions13 == [.remove(one)])
        #expect(table.missing == [one])
        let actions14 = table.removed(one)
        #expect(actions14 == [.open(one, .zero)])
    }

    @Test func purgedTombstonesReplaceTheVBucket() {
        var table = IndexTable()
        _ = table.serve([one])
        _ = table.opened(one, .opened(high: Seqno(10), uuid: uuid))
        let actions15 = table.purged(one)
        #expect(actions15 == [.remove(one)])
    }

    @Test func endedFeedIsOpenedAgainAtThePosition() {
        var table = IndexTable()
        _ = table.serve([one])
        _ = table.opened(one, .opened(high: Seqno(10), uuid: uuid))
        table.committed(one, position(7))
        let actions16 = table.ended(one)
        #expect(actions16 == [.retry(one)])
        let actions17 = table.retry(one)
        #expect(actions17 == [.open(one, position(7))])
        let actions18 = table.ended(one)
        #expect(actions18 == [])
    }

    @Test func copyThatIsBeingLoadedIsRetried() {
        var table = IndexTable()
        _ = table.serve([one])
        let actions18 = table.opened(one, .unavailable)
        #expect(actions18 == [.retry(one)])
        let actions19 = table.retry(one)
        #expect(actions19 == [.open(one, .zero)])
    }

    @Test func progressCountsChangesOfAllServedVBuckets() {
        var table = IndexTable()
        _ = table.serve([one, VBucketID(2)])
        _ = table.opened(one, .opened(high: Seqno(100), uuid: uuid))
        _ = table.opened(VBucketID(2), .opened(high: Seqno(300), uuid: uuid))
        table.committed(one, position(100))
        #expect(table.progress == 0.25)
        #expect(table.changes == (100, 400) && !table.isReady)
        table.committed(VBucketID(2), position(300))
        #expect(table.changes == (400, 400) && table.isReady)
        #expect(table.progress == 1)
    }

    /// Random events: rows are removed before a vBucket is filled again, at most one feed and one
    /// removal are under way for a vBucket, and in the end every served vBucket is counted.
    @Test(arguments: 0..<8) func servedVBucketsAreCountedAtTheEndOfRandomWalks(_ chunk: UInt64) {
        for seed in chunk * 250..<chunk * 250 + 250 {
            var walk = TableWalk(seed: seed)
            for _ in 0..<200 where walk.wrong == nil { walk.step() }
            walk.end()
            if let wrong = walk.wrong { Issue.record("seed \(seed): \(wrong)") }
        }
    }
}

/// The owner of a table, with a model of what the file has.
private struct TableWalk {
    private var dice: SeededRandom
    private var table = IndexTable()
    private var served: Set<VBucketID> = []
    private var opening: Set<VBucketID> = []
    private var open: [VBucketID: UInt64] = [:]
    private var removing: Set<VBucketID> = []
    private var retrying: Set<VBucketID> = []
    private var completing: Set<VBucketID> = []
    /// The seqnos through which the file has rows.
    private var rows: [VBucketID: UInt64] = [:]
    private(set) var wrong: String?

    init(seed: UInt64) { dice = SeededRandom(seed: seed) }

    private mutating func roll(_ count: Int) -> Int { Int(dice.next() >> 33) % count }

    mutating func step() {
        let vBucket = VBucketID(UInt16(roll(4)))
        switch roll(10) {
        case 0:
            served.formSymmetricDifference([vBucket])
            apply(table.serve(served))
        case 1, 2, 3: answer(vBucket, roll(6))
        case 4, 5, 6: commit(vBucket)
        case 7 where removing.contains(vBucket): finishRemoval(vBucket)
        case 8 where open[vBucket] != nil:
            open[vBucket] = nil
            apply(roll(3) == 0 ? table.purged(vBucket) : table.ended(vBucket))
        case 9 where retrying.remove(vBucket) != nil: apply(table.retry(vBucket))
        default: break
        }
    }

    /// Lets everything that is under way succeed.
    mutating func end() {
        for _ in 0..<40 where wrong == nil {
            for number in 0..<4 {
                let vBucket = VBucketID(UInt16(number))
                if removing.contains(vBucket) { finishRemoval(vBucket) }
                if retrying.remove(vBucket) != nil { apply(table.retry(vBucket)) }
                answer(vBucket, 5)
                commit(vBucket)
            }
        }
        guard wrong == nil else { return }
        if !table.isReady { wrong = "missing at the end: \(table.missing)" }
        for number in 0..<4 {
            let vBucket = VBucketID(UInt16(number))
            let isCounted = table.home(of: vBucket) == .main
            if isCounted != served.contains(vBucket) {
                wrong = "\(vBucket) is counted: \(isCounted)"
            }
            if !isCounted, rows[vBucket] != nil { wrong = "rows of \(vBucket) are left" }
        }
    }

    private mutating func answer(_ vBucket: VBucketID, _ kind: Int) {
        guard opening.remove(vBucket) != nil else { return }
        switch kind {
        case 0: apply(table.opened(vBucket, .unavailable))
        case 1: apply(table.opened(vBucket, .rollBack))
        default:
            let high = (rows[vBucket] ?? 0) + UInt64(roll(3))
            open[vBucket] = high
            apply(table.opened(vBucket, .opened(high: Seqno(high), uuid: VBucketUUID(5))))
        }
    }

    private mutating func commit(_ vBucket: VBucketID) {
        guard let high = open[vBucket] else { return }
        let from = table.position(of: vBucket).seqno.value
        if from != rows[vBucket] ?? 0 { wrong = "\(vBucket) continues at \(from), not at its rows" }
        guard from < high || completing.contains(vBucket) else { return }
        completing.remove(vBucket)
        let through = min(high, from + 1)
        rows[vBucket] = through
        let position = IndexPosition(
            uuid: VBucketUUID(5),
            seqno: Seqno(through),
            snapshotStart: Seqno(through),
            snapshotEnd: Seqno(through)
        )
        table.committed(vBucket, position)
    }

    private mutating func finishRemoval(_ vBucket: VBucketID) {
        removing.remove(vBucket)
        rows[vBucket] = nil
        apply(table.removed(vBucket))
    }

    private mutating func apply(_ actions: [IndexTable.Action]) {
        for action in actions {
            switch action {
            case .open(let vBucket, let position):
                if removing.contains(vBucket) { wrong = "\(vBucket) is filled during its removal" }
                if position.seqno.value != rows[vBucket] ?? 0 {
                    wrong = "\(vBucket) opens elsewhere"
                }
                if open[vBucket] != nil || !opening.insert(vBucket).inserted {
                    wrong = "\(vBucket) has two feeds"
                }
            case .close(let vBucket):
                if open.removeValue(forKey: vBucket) == nil, opening.remove(vBucket) == nil {
                    wrong = "\(vBucket) has no feed to close"
                }
                completing.remove(vBucket)
            case .remove(let vBucket):
                if open[vBucket] != nil { wrong = "\(vBucket) is removed under an open feed" }
                if !removing.insert(vBucket).inserted { wrong = "\(vBucket) is removed twice" }
            case .complete(let vBucket): completing.insert(vBucket)
            case .retry(let vBucket): retrying.insert(vBucket)
            }
        }
    }
}
