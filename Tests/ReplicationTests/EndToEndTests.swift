import Bytes
import Engine
import Persistence
import Replication
import Testing
import Vocabulary

@Suite struct EndToEndTests {
    private func expectEqual(_ pair: Pair) throws {
        let expected = pair.state(at: Seqno(.max))
        let (one, other) = (pair.active.resumePoint, pair.replica.resumePoint)
        #expect(one.high == other.high)
        #expect(other.openSnapshot == nil)
        #expect(one.log == other.log)
        #expect(pair.receiver.mirror == expected)
        for change in expected.values {
            let seqno = viewing(change.key) { key in
                pair.replica.vBucket.withCore {
                    $0.currentSeqno(
                        of: key,
                        hash: pair.replica.hash(key),
                        asked: change.meta.seqno
                    )
                }
            }
            #expect(seqno == change.meta.seqno)
        }
        let (live, dead) = pair.replica.vBucket.withCore { ($0.liveCount, $0.tombstoneCount) }
        #expect(live == expected.values.count { !$0.meta.isDeleted })
        #expect(dead == expected.values.count { $0.meta.isDeleted })
        let prepares = pair.prepares(at: Seqno(.max))
        #expect(pair.active.prepares() == prepares && pair.replica.prepares() == prepares)
        guard pair.active.type == .persistent else { return }
        for copy in [pair.active, pair.replica] {
            try copy.flush()
            #expect(try copy.stored() == expected)
            #expect(try copy.storedPrepares() == prepares)
        }
        let records = try pair.replica.lane.records()
        let record = try #require(records.first { $0.id == pair.replica.id })
        #expect(record.openSnapshot == nil)
        #expect(record.failoverLog == one.log)
    }

    /// Whatever happens on the way: once all is quiet, the replica is what the active copy is.
    @Test(arguments: 1...60)
    func replicaConvergesToActiveCopy(seed: UInt64) throws {
        let pair = try Pair(seed: seed, seed % 4 == 0 ? .ephemeral : .persistent)
        let failsOver = seed % 3 == 0
        for _ in 0..<1_500 {
            switch Int.random(in: 0..<100, using: &pair.random) {
            case 0..<22: try pair.write()
            case 22..<30: try pair.writeDurably()
            case 30..<35: try pair.complete()
            case 35..<78: _ = try pair.pump()
            case 78: pair.checkPrepares()
            case 79: try pair.active.flush(fails: true)
            case 80..<83: try pair.active.flush()
            case 83..<86: try pair.replica.flush()
            case 86: try pair.active.compact()
            case 87: try pair.replica.compact()
            case 88..<90: pair.active.eject()
            case 90: pair.replica.eject()
            case 91..<93: _ = pair.active.vBucket.withCore { $0.dropSlowestCursor() }
            case 93: pair.disconnect()
            case 94: try pair.crashReplica()
            case 95 where failsOver: try pair.failOver()
            default: try pair.connect()
            }
        }
        try pair.settle()
        try expectEqual(pair)
        #expect(pair.completed > 3)
        #expect(pair.commits + pair.aborts > 3)
    }

    @Test func ejectedChangesAreStreamedFromDiskAndLaterOnesFromMemory() throws {
        let pair = try Pair(seed: 5, .persistent)
        for _ in 0..<400 { try pair.write() }
        try pair.active.flush()
        pair.active.eject()
        for _ in 0..<20 { try pair.write() }
        try pair.settle()
        try expectEqual(pair)
        #expect(pair.scans == 1)
        for _ in 0..<20 {
            try pair.write()
            while try pair.pump() {}
        }
        try pair.settle()
        try expectEqual(pair)
        #expect(pair.scans == 1, "from then on memory has everything")
    }

    @Test func replicaCrashedInsideSnapshotResumesWithoutReset() throws {
        let pair = try Pair(seed: 6, .persistent)
        for _ in 0..<300 { try pair.write() }
        try pair.connect()
        while pair.receiver.stream.high == .zero { _ = try pair.pump() }
        #expect(pair.receiver.stream.covered == .zero)
        try pair.replica.flush()
        try pair.crashReplica()
        let resumePoint = pair.replica.resumePoint
        #expect(resumePoint.openSnapshot?.start == .zero)
        #expect(resumePoint.high > .zero)
        try pair.settle()
        try expectEqual(pair)
        #expect(pair.receiver.resets == 0)
    }

    @Test func oldActiveCopyWithUnreplicatedChangesIsRebuilt() throws {
        let pair = try Pair(seed: 7, .persistent)
        for _ in 0..<100 { try pair.write() }
        try pair.settle()
        pair.disconnect()
        for _ in 0..<30 { try pair.write() }
        try pair.failOver()
        for _ in 0..<30 { try pair.write() }
        try pair.settle()
        #expect(pair.receiver.resets == 1)
        try expectEqual(pair)
    }

    @Test func oldActiveCopyWithoutUnreplicatedChangesFollowsWithoutReset() throws {
        let pair = try Pair(seed: 8, .persistent)
        for _ in 0..<100 { try pair.write() }
        try pair.settle()
        try pair.failOver()
        for _ in 0..<30 { try pair.write() }
        try pair.settle()
        #expect(pair.receiver.resets == 0)
        try expectEqual(pair)
    }
}
